package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

// idworker is a running installation: an idworker serve with an embedded NATS
// server, and other processes that use it.
type idworker struct {
	binary string
	url    string
	log    *os.File // log of all processes
	procs  []*exec.Cmd
	conn   *nats.Conn
}

// serve starts idworker serve on a free loopback port, with its data below dir,
// and returns when it answers.
func serve(ctx context.Context, binary, dir string) (*idworker, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	w := &idworker{binary: binary, url: "nats://" + address, log: log}
	if err := w.startServer(ctx, address, filepath.Join(dir, "data")); err != nil {
		return nil, errors.Join(err, w.stop(true))
	}
	return w, nil
}

func (w *idworker) startServer(ctx context.Context, address, data string) (err error) {
	if err := w.start("serve", "--listen", address, "--data", data); err != nil {
		return err
	}
	w.conn, err = nats.Connect(w.url, nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		return err
	}
	// There is no tag yet, so this error is an answer.
	return w.await(ctx, "order", messages.ErrNoTag)
}

// command returns an idworker command without environment variables.
func (w *idworker) command(args ...string) *exec.Cmd {
	cmd := exec.Command(w.binary, args...)
	cmd.Env = []string{}
	return cmd
}

// start starts another process, which runs until stop.
func (w *idworker) start(args ...string) error {
	cmd := w.command(args...)
	cmd.Stdout, cmd.Stderr = w.log, w.log
	if err := cmd.Start(); err != nil {
		return err
	}
	w.procs = append(w.procs, cmd)
	return nil
}

// createTag creates a tag, as an administrator would, and returns when it has
// IDs.
func (w *idworker) createTag(ctx context.Context, tag string) error {
	if out, err := w.command("tag", "create", "--server", w.url, tag).CombinedOutput(); err != nil {
		return fmt.Errorf("create tag %s: %w: %s", tag, err, out)
	}
	return w.await(ctx, tag, nil)
}

// await requests IDs of a tag until the result is the wanted error. It does not
// use the IDs, which leaves a harmless gap.
func (w *idworker) await(ctx context.Context, tag string, want error) error {
	client := messages.NewClient(w.conn, messages.DefaultPrefix)
	for {
		try, cancel := context.WithTimeout(ctx, time.Second)
		_, err := client.Next(try, tag)
		cancel()
		if errors.Is(err, want) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for idworker: %w: %w", ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stop ends all processes, the NATS server's last, and prints their log if show
// is set. It kills a process that does not end in time.
func (w *idworker) stop(show bool) (err error) {
	if w.conn != nil {
		w.conn.Close()
	}
	for _, p := range slices.Backward(w.procs) {
		_ = p.Process.Signal(os.Interrupt) // fails if it has ended
		kill := time.AfterFunc(5*time.Second, func() { _ = p.Process.Kill() })
		err = errors.Join(err, p.Wait())
		kill.Stop()
	}
	if logged, readErr := os.ReadFile(w.log.Name()); show && readErr == nil {
		_, _ = os.Stderr.Write(logged)
	}
	return errors.Join(err, w.log.Close())
}

// freeAddress returns an unused address.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
