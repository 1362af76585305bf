// Command idworker issues unique 64-bit IDs over NATS. See the README.
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
	"time"

	"github.com/alecthomas/kong"

	"github.com/idworker/idworker/cmd/internal/progress"
	"github.com/idworker/idworker/internal/problem"
	"github.com/idworker/idworker/internal/roles"
	"github.com/idworker/idworker/snowflake"
)

// cli is the command line. A flag has the environment variable IDWORKER_ and its
// name, unless its tag env is another or "-". Help, the manual page and completion
// are generated from it.
type cli struct {
	Serve serveCmd `cmd:"" help:"Serve IDs, and load segments."`
	Get   getCmd   `cmd:"" help:"Get IDs of a tag, or snowflake IDs."`
	Tag   tagCmd   `cmd:"" help:"Manage tags and templates."`
	Bench benchCmd `cmd:"" help:"Measure an installation under load, and check every ID."`

	Enrich enrichCmds `cmd:"" help:"Add IDs to the events of a stream."`

	Opaque  opaqueCmds `cmd:"" help:"Make IDs opaque, and open them."`
	Decode  decodeCmd  `cmd:"" help:"Decode snowflake IDs."`
	Workers workersCmd `cmd:"" help:"List worker IDs and their holders."`

	Status    statusCmd    `cmd:"" help:"Show the installation's status."`
	Doctor    doctorCmd    `cmd:"" help:"Diagnose an installation, for one role."`
	Rights    rightsCmd    `cmd:"" help:"Print the NATS permissions of a role."`
	Hash      hashCmd      `cmd:"" help:"Hash passwords of NATS users (lines NAME=PASSWORD on stdin)."`
	Provision provisionCmd `cmd:"" help:"Create or update streams and buckets."`
	Backup    backupCmd    `cmd:"" help:"Save tags, settings and enrichments to a folder."`
	Restore   restoreCmd   `cmd:"" help:"Put back what is missing of a backup, and raise all tags."`

	Help       helpCmd       `cmd:"" help:"Show help for a command."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
	Man        manCmd        `cmd:"" help:"Print the manual page (roff)."`
	Completion completionCmd `cmd:"" help:"Print a shell completion script."`
	Complete   completeCmd   `cmd:"" hidden:"" passthrough:"" help:"Print completions of the last word."`

	PrintVersion kong.VersionFlag `name:"version" help:"Print the version and exit." env:"-"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// input is the standard input of commands that prompt or read a list.
type input struct{ io.Reader }

// printFlags are for commands that print a result and end.
type printFlags struct {
	JSON bool `name:"json" help:"Print JSON, also for errors." env:"-"`
}

// run parses and runs a command line, and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	code, exited := 0, false
	parser := newParser(grammar(args), stdout, stderr, func(c int) { code, exited = c, true })
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
	stdout, stderr, flush := unblock(command, stdout, stderr)
	defer flush()
	json := isSet(command, "json")
	// Runs until stopped, or prints at once or repeatedly.
	if boolFlag(command, "json") == nil || isSet(command, "watch") {
		command.Bind(output{Writer: stdout, JSON: json})
		return end(command.Run(), output{Writer: stderr, JSON: json})
	}
	patience := progress.NewPatience(stdout, terminal(stderr), command.Selected().FullPath())
	command.Bind(output{Writer: patience, JSON: json})
	err = command.Run()
	patience.Stop()
	return end(err, output{Writer: stderr, JSON: json})
}

// terminal returns the writer if it is a terminal, or else nil.
func terminal(w io.Writer) io.Writer {
	if progress.IsTerminal(w) {
		return w
	}
	return nil
}

// grammar returns the part of cli that a command line needs: the command that it
// begins with, or all of cli if it begins otherwise. A parser of all commands
// takes kong longer to build than most commands take to run.
func grammar(args []string) any {
	if slices.Equal(args, []string{"--version"}) {
		args = []string{"version"}
	}
	return reflect.New(commandOf(reflect.TypeFor[cli](), args)).Interface()
}

// commandOf returns the type without the commands that the words don't name.
func commandOf(commands reflect.Type, words []string) reflect.Type {
	var fields []reflect.StructField
	named := false
	for i := range commands.NumField() {
		field := commands.Field(i)
		_, isCommand := field.Tag.Lookup("cmd")
		if isCommand && len(words) > 0 && words[0] == strings.ToLower(field.Name) {
			field.Type, named = commandOf(field.Type, words[1:]), true
		} else if isCommand {
			continue
		}
		fields = append(fields, field)
	}
	if !named {
		return commands
	}
	return reflect.StructOf(fields)
}

// newParser returns the parser of a grammar, which is cli or a part of it.
func newParser(grammar any, stdout, stderr io.Writer, exit func(int)) *kong.Kong {
	return kong.Must(grammar,
		kong.Name("idworker"),
		kong.Description("Unique 64-bit IDs over NATS.\n\nTo try it: idworker serve --demo"),
		kong.Vars{"version": buildOf(readBuildInfo()).String(), "layouts": strings.Join(snowflake.LayoutNames(), ", "), "roles": strings.Join(roles.Names(), ",")},
		kong.DefaultEnvars("IDWORKER"),
		kong.Writers(stdout, stderr),
		kong.Exit(exit),
		kong.ExplicitGroups([]kong.Group{{Key: groupNATS, Title: "Connecting to NATS:"}, {Key: groupStore, Title: "The store:"}}),
	)
}

// allCommands returns the parser of all commands, for those that describe others.
func allCommands(app *kong.Kong) *kong.Kong {
	return newParser(&cli{}, app.Stdout, app.Stderr, app.Exit)
}

// Groups of flags that many commands share.
const (
	groupNATS  = "nats"
	groupStore = "store"
)

// end prints a command's error, and returns the exit code.
func end(err error, to output) int {
	code := exitCode(err)
	if err != nil && !errors.Is(err, context.Canceled) && !isLogged(err) {
		// There is no other place to report this.
		_ = to.Print(errorReport{Message: explain(err), ExitCode: code})
	}
	return code
}

// refuse prints the error of a malformed command line.
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

// lacksCommand reports whether a command line is well-formed but needs another
// command at its end.
func lacksCommand(c *kong.Context) bool {
	at := c.Selected()
	return c.Error == nil && (at == nil || !at.Leaf())
}

// boolFlag returns the boolean flag of that name, or nil. It separates --json
// of commands that print results from --json of enrichers, which has a value.
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

// explainNumber explains a negative number or duration, which looks like a flag.
func explainNumber(args []string, err error) error {
	for _, arg := range args {
		if !negative.MatchString(arg) {
			continue
		}
		if _, bad := time.ParseDuration(arg); bad == nil {
			return fmt.Errorf("%s: durations must not be negative", arg)
		}
		return fmt.Errorf("%s: must not be negative; counts, steps and IDs start at 1", arg)
	}
	return err
}

// helpCmd prints the same as --help.
type helpCmd struct {
	Command []string `arg:"" optional:"" help:"Command to describe (default: all)."`
}

// Run prints the help of the command.
func (h *helpCmd) Run(app *kong.Kong) error {
	about, err := kong.Trace(allCommands(app), append(h.Command, "--help"))
	if err == nil {
		err = about.Error
	}
	if err != nil {
		return problem.Usage(err)
	}
	return about.PrintUsage(false)
}
