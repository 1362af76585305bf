// Package ownership gives each slot of the strict tags one owner at a time.
package ownership
