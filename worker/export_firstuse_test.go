package worker

// Refused is how many loads of a worker were refused by loaders.
func Refused(w *Process) int64 { return w.stats().Grants.Refused }

// FirstUsesInMemory is how many tags that came of templates a worker has in memory.
func FirstUsesInMemory(w *Process) (n int) {
	for _, h := range w.halves {
		if a, ok := h.(*answering); ok {
			n += a.supply.alloc.FirstUses()
		}
	}
	return n
}
