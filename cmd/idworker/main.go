// Command idworker hands out unique 64-bit IDs over NATS. See the README.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/idworker/idworker/cmd/internal/explain"
	"github.com/idworker/idworker/cmd/internal/natsconn"
)

// version is the semantic version of this source tree; see the CHANGELOG.
const version = "0.1.0"

// cli is the whole command line. Every flag also has an environment variable,
// IDWORKER_ and its name.
type cli struct {
	Serve serveCmd `cmd:"" help:"Answer requests for IDs, and load segments."`
	Get   getCmd   `cmd:"" help:"Get IDs of a tag, or snowflake IDs."`
	Tag   tagCmd   `cmd:"" help:"List, create, change, move and remove tags."`

	Enrich enrichCmds `cmd:"" help:"Stamp the events of a stream with IDs and publish them to another, and verify that."`

	Decode  decodeCmd  `cmd:"" help:"Show the time, worker ID and sequence in snowflake IDs."`
	Workers workersCmd `cmd:"" help:"List the worker IDs in snowflake IDs and who holds them."`

	Status    statusCmd    `cmd:"" help:"Show how the whole installation is: workers, loaders, tags, worker IDs, enrichments."`
	Doctor    doctorCmd    `cmd:"" help:"Check that a process of a role has what it needs."`
	Provision provisionCmd `cmd:"" help:"Create or update streams and buckets, as an administrator."`

	Version kong.VersionFlag `help:"Print the version and exit." env:"-"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// output is where commands write their results.
type output struct{ io.Writer }

// input is what commands read that ask, or take a list.
type input struct{ io.Reader }

// run parses and runs one command line, and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	code, exited := 0, false
	parser, err := kong.New(&cli{},
		kong.Name("idworker"),
		kong.Description("Unique 64-bit IDs over NATS."),
		kong.Vars{"version": version},
		kong.DefaultEnvars("IDWORKER"),
		kong.Writers(stdout, stderr),
		kong.Exit(func(c int) { code, exited = c, true }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(output{stdout}),
		kong.Bind(input{os.Stdin}),
		kong.UsageOnError(),
	)
	if err != nil {
		panic(err) // the cli struct itself is wrong
	}
	command, err := parser.Parse(args)
	if exited { // --help or --version
		return code
	}
	if err == nil {
		err = natsconn.CheckCommandLine(args)
	}
	if err != nil {
		err = explain.Usage(err)
	} else {
		err = command.Run()
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintf(stderr, "idworker: %s\n", explain.Text(err))
	}
	return explain.ExitCode(err)
}
