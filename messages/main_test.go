package messages_test

import (
	"os"
	"testing"

	"github.com/idworker/idworker/testing/natstest"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(driverVariable) != "":
		os.Exit(runDriver(os.Stdin, os.Stdout))
	case os.Getenv(scheduleVariable) != "":
		os.Exit(m.Run())
	}
	natstest.Main(m)
}
