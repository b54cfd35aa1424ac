package runner_test

import (
	"flag"
	"testing"

	"github.com/agentarbor/arbor/internal/testing/crashtest"
)

var crashes = flag.Int("crashes", 60, "how many processes TestCrash kills at least; from 500 on, at every point there is")

// TestCrash kills real processes with SIGKILL, and resumes what they leave.
func TestCrash(t *testing.T) {
	crashtest.Suite{Way: crashtest.Resume(), Child: "TestCrashChild", Kills: *crashes, CheckLog: checkLog}.Run(t)
}

// TestCrashChild is the process that TestCrash kills.
func TestCrashChild(t *testing.T) { crashtest.Child(t, crashtest.Resume()) }
