// Package natsconn is how commands connect to NATS: which servers, as whom, how a process
// that serves stays connected, and what to make of a permission that the server denies.
//
// No text that it returns or logs has a login in it.
package natsconn
