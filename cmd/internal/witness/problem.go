package witness

// Problem returns why a witness in a folder counts as none, or "". data is the
// data folder of the only NATS server if that is on this machine; empty if there
// are several or it is elsewhere.
func Problem(folder, data string) string {
	switch {
	case inMemory(folder):
		return "it is on a file system in memory, and lost with the machine's power"
	case data != "" && sameDisk(folder, data):
		return "it is on the disk of the NATS server's data, and may be lost or put back with it"
	}
	return ""
}
