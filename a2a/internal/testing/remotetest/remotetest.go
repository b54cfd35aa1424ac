// Package remotetest contains test support for remote agents: a tree with a remote agent called billing, and a client
// that runs its turns.
package remotetest

import (
	"context"
	"iter"
	"net/http"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
)

// Key is the session key of the tests.
var Key = session.ID("s1")

// Execute is how a peer of the Go SDK handles a message.
type Execute = func(ctx context.Context, ec *a2asrv.ExecutorContext, yield func(sdk.Event, error) bool)

// Completes answers with an artifact in pieces, then with a snapshot of it.
func Completes(pieces ...string) Execute {
	return func(_ context.Context, ec *a2asrv.ExecutorContext, yield func(sdk.Event, error) bool) {
		yield(sdk.NewSubmittedTask(ec, ec.Message), nil)
		yield(sdk.NewStatusUpdateEvent(ec, sdk.TaskStateWorking, nil), nil)
		first := sdk.NewArtifactEvent(ec, sdk.NewTextPart(pieces[0]))
		yield(first, nil)
		for _, p := range pieces[1:] {
			yield(sdk.NewArtifactUpdateEvent(ec, first.Artifact.ID, sdk.NewTextPart(p)), nil)
		}
		snapshot := sdk.NewArtifactUpdateEvent(ec, first.Artifact.ID, sdk.NewTextPart(strings.Join(pieces, "")))
		snapshot.Append, snapshot.LastChunk = false, true
		yield(snapshot, nil)
		yield(sdk.NewStatusUpdateEvent(ec, sdk.TaskStateCompleted, nil), nil)
	}
}

// Billing returns a remote agent with the card at an address. Its connections are closed at the end of the test.
func Billing(t testing.TB, url string, opts ...a2a.Option) agent.Agent {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return must.Get(a2a.Remote("billing", url, append([]a2a.Option{a2a.WithHTTPClient(&http.Client{Transport: transport})}, opts...)...))
}

// Client runs the turns of a tree.
type Client struct {
	*runner.Runner
	Store session.Store
	T     testing.TB
}

// NewClient returns a client with a new store.
func NewClient(t testing.TB, root agent.Agent, opts ...runner.Option) *Client {
	t.Helper()
	return NewClientWithStore(t, sessiontest.Memory(t), root, opts...)
}

// NewClientWithStore returns a client for a store, as another process would have.
func NewClientWithStore(t testing.TB, store session.Store, root agent.Agent, opts ...runner.Option) *Client {
	t.Helper()
	return &Client{must.Get(runner.New(root, store, opts...)), store, t}
}

// Turn runs a turn and returns its stored events, what billing streamed, and its error.
func (c *Client) Turn(text string) (events []*event.Event, streamed string, err error) {
	return c.Collect(c.Run(context.Background(), Key, llm.UserText(text)))
}

// Collect is Turn for a turn that the caller has started.
func (c *Client) Collect(turn iter.Seq2[*event.Event, error]) (events []*event.Event, streamed string, err error) {
	for e, turnErr := range sessiontest.Turn(c.T, turn) {
		switch {
		case turnErr != nil:
			err = turnErr
		case !e.Partial:
			events = append(events, e)
		case e.Agent == "billing":
			streamed += e.Text()
		}
	}
	return events, streamed, err
}

// NoError requires that a turn ended without an error, and returns its stored events.
func (c *Client) NoError(events []*event.Event, _ string, err error) []*event.Event {
	c.T.Helper()
	require.NoError(c.T, err)
	return events
}

// Find returns the data of one type from events.
func Find[T event.Data](events []*event.Event) (found []T) {
	for _, e := range events {
		if d, ok := e.Data.(T); ok {
			found = append(found, d)
		}
	}
	return found
}

// Texts returns the texts of billing from stored events.
func Texts(events []*event.Event) (texts []string) {
	for _, e := range events {
		if e.Agent == "billing" && e.Type() == event.TypeText {
			texts = append(texts, e.Text())
		}
	}
	return texts
}
