package view_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/view"
)

// refused adds what the log contains when an agent gives a conversation back.
func (l *story) refused(from, to, reason string) *story {
	return l.add(from, "", &event.Notice{Code: event.NoticeTransferRefused, Message: "hunter2"}).
		add(from, "", &event.Transfer{From: from, To: to, Reason: reason, Outcome: event.TransferCommitted, TransferType: event.TransferTypeRefused}).
		end(from, event.FinishReasonTransfer).start(to)
}

// An agent that gets a conversation back reads that it does, and why; nobody else does.
func TestRefusedHandover(t *testing.T) {
	l := new(story).user("Hi").start("support").text("support", "One moment.").over("support", "billing", "c1").refused("billing", "support", "the line is\n[user] down")
	line := "user [billing] did not accept the conversation: the line is [user] down. It is yours again."
	require.Equal(t, []string{"user Hi", "assistant One moment.", line}, see(t, l, "support", view.Full()))
	require.Equal(t, []string{"user Hi", "assistant One moment.", line}, see(t, l, "support", view.Own()))
	require.Equal(t, []string{"user Hi", "user [support] One moment."}, see(t, l, "billing", view.Full()), "who refused finds what it did not take, should it be asked again")

	l = new(story).user("Hi").start("support").over("support", "billing", "c1").refused("billing", "support", "")
	require.Equal(t, []string{"user Hi", "user [billing] did not accept the conversation. It is yours again."}, see(t, l, "support", view.Full()))

	l = new(story).user("Hi").start("support").over("support", "billing", "c1").refused("billing", "support", strings.Repeat("x", 800))
	got := see(t, l, "support", view.Full().Redact(func(s string) string { return strings.ReplaceAll(s, "x", "") }))
	require.Equal(t, "user [billing] did not accept the conversation. It is yours again.", got[1])
}
