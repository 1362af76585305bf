// Package natsconn connects commands to NATS: servers, logins, staying
// connected, and errors of denied permissions.
//
// Its errors and logs never contain a login.
package natsconn
