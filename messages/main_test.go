package messages_test

import (
	"testing"

	"github.com/idworker/idworker/testing/natstest"
)

func TestMain(m *testing.M) {
	natstest.Main(m)
}
