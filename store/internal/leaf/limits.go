package leaf

import "time"

// CallTimeout bounds every call but Tags, and each step of making a connection, so that
// a database that is stopped rather than gone is noticed. Callers give up after the same
// time anyway.
const CallTimeout = 3 * time.Second

// MaxConns is the number of connections of one process. Each is busy for one round trip
// per reservation, and a database has to serve many processes.
const MaxConns = 8
