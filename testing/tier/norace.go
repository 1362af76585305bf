//go:build !race

package tier

const racing = false
