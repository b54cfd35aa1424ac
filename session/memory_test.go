package session_test

import (
	"testing"

	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

func TestMemory(t *testing.T) {
	clock := sessiontest.NewClock()
	sessiontest.Run(t, func(*testing.T) session.Store {
		return session.NewMemory(session.WithClock(clock.Now), session.KeepSnapshots())
	}, sessiontest.Options{Advance: clock.Advance})
}
