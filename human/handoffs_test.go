package human_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/human"
)

func TestHandoffs(t *testing.T) {
	entry := func(session, since string) map[string]any {
		return map[string]any{"session": session, "user": "ann", "status": "queued", "from": "support", "reason": "refund", "since": since}
	}
	require.Empty(t, human.Handoffs(nil))
	require.Equal(t, []human.Handoff{
		{ID: "odd"},
		{ID: "b", Session: "s2", User: "ann", Status: human.Queued, From: "support", Reason: "refund", Since: "2026-03-01T12:00:00Z"},
		{ID: "c", Session: "s3", User: "ann", Status: human.Queued, From: "support", Reason: "refund", Since: "2026-03-01T12:00:00Z"},
		{ID: "a", Session: "s1", User: "ann", Status: human.Queued, From: "support", Reason: "refund", Since: "2026-03-01T12:00:01Z"},
	}, human.Handoffs(map[string]any{
		"app:handoff:" + "a":    entry("s1", "2026-03-01T12:00:01Z"),
		"app:handoff:" + "b":    entry("s2", "2026-03-01T12:00:00Z"),
		"app:handoff:" + "c":    entry("s3", "2026-03-01T12:00:00Z"),
		"app:handoff:" + "odd":  map[string]any{"session": 7},
		"app:handoff:" + "none": "words",
		"app:other":             entry("s9", ""),
		"user:handoff:d":        entry("s9", ""),
	}))
}
