package human_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/human"
)

var statuses = []human.Status{human.None, human.Requested, human.Queued, human.Connecting, human.Ringing, human.Connected,
	human.OnHold, human.Completed, human.Ended, human.Cancelled, human.Failed}

// lawful is the table of the documentation, written out.
var lawful = map[human.Status]string{
	human.None:       "requested cancelled failed",
	human.Requested:  "queued connecting cancelled failed",
	human.Queued:     "connecting cancelled failed",
	human.Connecting: "ringing cancelled failed",
	human.Ringing:    "connected cancelled failed",
	human.Connected:  "on_hold completed ended cancelled failed",
	human.OnHold:     "connected completed ended cancelled failed",
	human.Completed:  "requested",
	human.Ended:      "requested",
	human.Cancelled:  "requested",
	human.Failed:     "requested",
}

func allows(from, to human.Status) bool {
	return strings.Contains(" "+lawful[from]+" ", " "+string(to)+" ")
}

// ways has a lawful path to each state.
var ways = map[human.Status]string{
	human.None:       "",
	human.Requested:  "requested",
	human.Queued:     "requested queued",
	human.Connecting: "requested queued connecting",
	human.Ringing:    "requested connecting ringing",
	human.Connected:  "requested connecting ringing connected",
	human.OnHold:     "requested connecting ringing connected on_hold",
	human.Completed:  "requested connecting ringing connected completed",
	human.Ended:      "requested connecting ringing connected on_hold ended",
	human.Cancelled:  "requested queued cancelled",
	human.Failed:     "failed",
}

func in(t *testing.T, s human.Status) *human.Controller {
	c := new(human.Controller)
	for _, step := range strings.Fields(ways[s]) {
		require.NoError(t, c.Apply(human.Step{Status: human.Status(step)}))
	}
	require.Equal(t, s, c.Status())
	return c
}

// TestTransitions tries each pair of states, and states that there are not.
func TestTransitions(t *testing.T) {
	allowed := 0
	for _, from := range statuses {
		for _, to := range append([]human.Status{"", "answered"}, statuses...) {
			c := in(t, from)
			before := c.History()
			step := human.Step{Status: to, Reason: "r", TargetAgent: "anna", Time: time.Unix(9, 0)}
			err := c.Apply(step)
			if allows(from, to) {
				allowed++
				require.NoError(t, err, "%s to %s", from, to)
				require.Equal(t, to, c.Status())
				require.Equal(t, append(before, step), c.History())
				continue
			}
			require.ErrorIs(t, err, human.ErrTransition, "%s to %s", from, to)
			var refused *human.TransitionError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, human.TransitionError{From: from, To: to}, *refused)
			require.Equal(t, from, c.Status())
			require.Equal(t, len(before), len(c.History()))
			require.ElementsMatch(t, before, c.History())
		}
	}
	require.Equal(t, 30, allowed)
}

func TestHistory(t *testing.T) {
	var c human.Controller
	require.Equal(t, human.None, c.Status())
	require.Empty(t, c.History())
	for _, s := range []human.Status{human.Requested, human.Cancelled, human.Requested, human.Queued} {
		require.NoError(t, c.Apply(human.Step{Status: s}))
	}
	steps := c.History()
	require.Len(t, steps, 4)
	steps[3].Status = human.Failed
	require.Equal(t, human.Queued, c.Status(), "what History returns is a copy")
	require.Equal(t, human.Queued, c.History()[3].Status)
}

func TestKinds(t *testing.T) {
	var final []human.Status
	for _, s := range statuses {
		require.True(t, s.Known(), s)
		if s.Final() {
			final = append(final, s)
		}
	}
	require.Equal(t, []human.Status{human.Completed, human.Ended, human.Cancelled, human.Failed}, final)
	for _, s := range []human.Status{"", "answered", "None"} {
		require.False(t, s.Known() || s.Final(), s)
	}
}

// TestWay holds each way against the fewest steps that the written table allows within a leg.
func TestWay(t *testing.T) {
	const far = 99
	steps := map[[2]human.Status]int{}
	for _, a := range statuses {
		for _, b := range statuses {
			steps[[2]human.Status{a, b}] = far
			if allows(a, b) && !a.Final() {
				steps[[2]human.Status{a, b}] = 1
			}
		}
	}
	for _, over := range statuses {
		for _, a := range statuses {
			for _, b := range statuses {
				through := steps[[2]human.Status{a, over}] + steps[[2]human.Status{over, b}]
				steps[[2]human.Status{a, b}] = min(steps[[2]human.Status{a, b}], through)
			}
		}
	}
	for _, from := range statuses {
		require.Nil(t, in(t, from).Way("answered"))
		for _, to := range statuses {
			c := in(t, from)
			way := c.Way(to)
			require.Equal(t, from, c.Status(), "Way changes nothing")
			if n := steps[[2]human.Status{from, to}]; n >= far || from == to {
				require.Nil(t, way, "%s to %s", from, to)
				continue
			} else {
				require.Len(t, way, n, "%s to %s", from, to)
			}
			for _, s := range way {
				require.NoError(t, c.Apply(human.Step{Status: s}))
			}
			require.Equal(t, to, c.Status())
		}
	}
	require.Equal(t, []human.Status{human.Connecting, human.Ringing, human.Connected}, in(t, human.Queued).Way(human.Connected))
	require.Equal(t, []human.Status{human.Cancelled}, in(t, human.OnHold).Way(human.Cancelled))
	require.Nil(t, in(t, human.Connected).Way(human.Queued), "there is no way back")
}
