// Command idworker hands out unique 64-bit IDs over NATS. See the README.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/idworker/idworker/cmd/internal/progress"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/snowflake"
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

// input is what commands read that ask, or take a list.
type input struct{ io.Reader }

// printFlags are those of commands that print results and end.
type printFlags struct {
	JSON bool `name:"json" help:"Print one JSON object, for programs; an error too." env:"-"`
}

// run parses and runs one command line, and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	code, exited := 0, false
	parser := parserFor(stdout, stderr, func(c int) { code, exited = c, true })
	command, err := parser.Parse(args)
	if exited { // --help or --version
		return code
	}
	if err != nil {
		return refuse(args, err, stderr)
	}
	if err := checkSecrets(args); err != nil {
		return end(problem.Usage(err), output{Writer: stderr, JSON: isSet(command, "json")})
	}
	command.BindTo(ctx, (*context.Context)(nil))
	command.Bind(input{os.Stdin})
	json := isSet(command, "json")
	if boolFlag(command, "json") == nil || isSet(command, "watch") { // it serves, prints at once, or again and again
		command.Bind(output{Writer: stdout, JSON: json})
		return end(command.Run(), output{Writer: stderr, JSON: json})
	}
	patience := progress.NewPatience(stdout, terminal(stderr), command.Selected().FullPath())
	command.Bind(output{Writer: patience, JSON: json})
	err = command.Run()
	patience.Stop()
	return end(err, output{Writer: stderr, JSON: json})
}

// terminal is the writer if it is one, or nil.
func terminal(w io.Writer) io.Writer {
	if progress.IsTerminal(w) {
		return w
	}
	return nil
}

// parserFor is newParser, but for tests: they use parsers again.
var parserFor = newParser

// newParser returns the parser of the command line.
func newParser(stdout, stderr io.Writer, exit func(int)) *kong.Kong {
	return kong.Must(&cli{},
		kong.Name("idworker"),
		kong.Description("Unique 64-bit IDs over NATS.\n\nTo see what it does: idworker serve --demo"),
		kong.Vars{"version": version, "layouts": strings.Join(snowflake.LayoutNames(), ", ")},
		kong.DefaultEnvars("IDWORKER"),
		kong.Writers(stdout, stderr),
		kong.Exit(exit),
		kong.ExplicitGroups([]kong.Group{{Key: groupNATS, Title: "Connecting to NATS:"}, {Key: groupStore, Title: "The store:"}}),
	)
}

// Groups of flags that many commands have.
const (
	groupNATS  = "nats"
	groupStore = "store"
)

// end says why a command failed, and returns the exit code.
func end(err error, to output) int {
	code := exitCode(err)
	if err != nil && !errors.Is(err, context.Canceled) {
		_ = to.Print(failure{Message: explain(err), ExitCode: code}) // there is nobody else to tell
	}
	return code
}

// refuse says what is wrong with a command line.
func refuse(args []string, err error, stderr io.Writer) int {
	to := output{Writer: stderr}
	var parsing *kong.ParseError
	if errors.As(err, &parsing) && parsing.Context != nil {
		to.JSON = slices.Contains(args, "--json") && boolFlag(parsing.Context, "json") != nil
		if !to.JSON && lacksCommand(parsing.Context) {
			parsing.Context.Stdout = stderr
			_ = parsing.Context.PrintUsage(false) // as above
		}
	}
	return end(problem.Usage(explainNumber(args, err)), to)
}

// lacksCommand reports whether a command line is well-formed, but ends where another command has to
// follow.
func lacksCommand(c *kong.Context) bool {
	at := c.Selected()
	return c.Error == nil && (at == nil || !at.Leaf())
}

// boolFlag is a flag of a command that is set or not, nil if it has none of that name: --json of commands that
// print results, for enrichers have another one.
func boolFlag(c *kong.Context, name string) *kong.Flag {
	for _, flag := range c.Flags() {
		if flag.Name == name && flag.Target.Kind() == reflect.Bool {
			return flag
		}
	}
	return nil
}

func isSet(c *kong.Context, name string) bool {
	flag := boolFlag(c, name)
	return flag != nil && flag.Target.Bool()
}

var negative = regexp.MustCompile(`^-\d`)

// explainNumber says of a negative number that it is one: it looks like a flag.
func explainNumber(args []string, err error) error {
	for _, arg := range args {
		if negative.MatchString(arg) {
			return fmt.Errorf("%s: no number here may be negative; counts, steps and IDs go from 1 on", arg)
		}
	}
	return err
}
