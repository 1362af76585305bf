// Package boottime reads the clock that counts on while the machine is suspended.
//
// It is Linux's CLOCK_BOOTTIME. Go's own monotonic time stands still in suspend there. Reading it
// takes a system call, a tenth of a microsecond, about five times as long as Go's. What it cannot see
// is that a hypervisor stopped a whole virtual machine without telling it: then this clock stands
// still, too. Elsewhere there is no portable clock of this kind.
package boottime
