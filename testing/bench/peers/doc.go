// Package peers measures snowflake IDs beside the libraries that people use for
// them. It is a module of its own, so that idworker does not require them.
package peers
