package main

import (
	"errors"
	"io"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/idworker/idworker/cmd/internal/lossy"
)

// logFlags configure the log of a command that serves.
type logFlags struct {
	LogLevel  zapcore.Level `help:"Log level: debug, info, warn or error." default:"info"`
	LogFormat string        `help:"Log format: console or json." default:"console" enum:"console,json"`
}

func (logFlags) isServing() {}

// journal is stderr for a command that serves. Nothing that writes to it waits
// for its reader.
type journal struct {
	*lossy.Buffer
	terminal io.Writer // the same if stderr is a terminal, else nil
}

// flushWithin is the time that a command that ends waits for each reader of its
// output.
const flushWithin = time.Second

// unblock prepares a command that serves for readers of stdout and stderr that
// stop or end: it writes to a buffer, and a broken pipe no longer kills the
// process. For other commands it returns the same writers, and a command whose
// reader has ended ends, too, as in a shell's pipeline.
func unblock(command *kong.Context, stdout, stderr io.Writer) (out, errs io.Writer, flush func()) {
	if _, serves := command.Selected().Target.Interface().(interface{ isServing() }); !serves {
		return stdout, stderr, func() {}
	}
	signal.Ignore(syscall.SIGPIPE)
	results, log := lossy.New(stdout), &journal{Buffer: lossy.New(stderr)}
	if terminal(stderr) != nil {
		log.terminal = log
	}
	command.Bind(log)
	return results, log, func() {
		results.Close(flushWithin)
		log.Close(flushWithin)
	}
}

// open returns the logger of a command that serves.
func (f logFlags) open(to *journal) *zap.Logger {
	log := newLogger(to, f.LogLevel, f.LogFormat)
	to.Report(func(dropped int64) { log.Warn("log lines dropped", zap.Int64("lines", dropped)) })
	return log
}

// end logs the error that ends a command, if programs read the log. It returns
// the error, which then needs no other report.
func (f logFlags) end(log *zap.Logger, err error) error {
	if err == nil || f.LogFormat != "json" {
		return err
	}
	log.Error("failed", zap.String("error", explain(err)), zap.Int("exit_code", exitCode(err)))
	return loggedError{err}
}

// loggedError is an error that is in the log.
type loggedError struct{ error }

func (e loggedError) Unwrap() error { return e.error }

// isLogged reports whether an error is in the log.
func isLogged(err error) bool { return errors.As(err, new(loggedError)) }

// newLogger returns a logger that writes a line per event.
func newLogger(to zapcore.WriteSyncer, level zapcore.Level, format string) *zap.Logger {
	cfg := zap.NewProductionEncoderConfig()
	cfg.EncodeTime = zapcore.ISO8601TimeEncoder
	cfg.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewConsoleEncoder(cfg)
	if format == "json" {
		encoder = zapcore.NewJSONEncoder(cfg)
	}
	return zap.New(zapcore.NewCore(encoder, to, level), zap.ErrorOutput(to))
}

// droppedLines is the metric of a log's dropped lines.
func droppedLines(log *journal) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "idworker_log_lines_dropped_total",
		Help: "Log lines that were dropped, because the reader of stderr stopped reading or ended.",
	}, func() float64 { return float64(log.Dropped()) })
}
