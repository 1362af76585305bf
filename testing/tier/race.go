//go:build race

package tier

const racing = true
