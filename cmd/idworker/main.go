// Command idworker hands out unique 64-bit IDs over NATS. See the README.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// version is the semantic version of this source tree; see the CHANGELOG.
const version = "0.1.0"

// cli is the whole command line. Every flag also has an environment variable, IDWORKER_ and its
// name. Help, the manual page and completion are made from it.
type cli struct {
	Serve serveCmd `cmd:"" help:"Answer requests for IDs, and load segments."`
	Get   getCmd   `cmd:"" help:"Get IDs of a tag, or snowflake IDs."`
	Tag   tagCmd   `cmd:"" help:"List, create, change, move and remove tags."`
	Bench benchCmd `cmd:"" help:"Put load on an installation, measure it, and check all IDs that come."`

	Enrich enrichCmds `cmd:"" help:"Stamp the events of a stream with IDs and publish them to another, and verify that."`

	Decode  decodeCmd  `cmd:"" help:"Show the time, worker ID and sequence in snowflake IDs."`
	Workers workersCmd `cmd:"" help:"List the worker IDs in snowflake IDs and who holds them."`

	Status    statusCmd    `cmd:"" help:"Show how the whole installation is: workers, loaders, tags, worker IDs, enrichments."`
	Doctor    doctorCmd    `cmd:"" help:"Check that a process of a role has what it needs."`
	Provision provisionCmd `cmd:"" help:"Create or update streams and buckets, as an administrator."`

	Help       helpCmd       `cmd:"" help:"Show what a command is for, and its flags."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
	Man        manCmd        `cmd:"" help:"Print the manual page, as roff."`
	Completion completionCmd `cmd:"" help:"Print what makes a shell complete commands and flags."`
	Complete   completeCmd   `cmd:"" hidden:"" passthrough:"" help:"Print what the last word could be, for a shell."`

	PrintVersion kong.VersionFlag `name:"version" help:"Print the version and exit." env:"-"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
