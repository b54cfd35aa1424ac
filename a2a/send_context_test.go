package a2a_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/a2a/a2atest"
	"github.com/agentarbor/arbor/a2a/internal/testing/remotetest"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
)

// late is a peer whose first event takes its time.
type late struct {
	*a2atest.Mock
	after time.Duration
	sent  chan struct{}
}

func (l *late) SendStreamingMessage(ctx context.Context, req *sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		close(l.sent)
		select {
		case <-time.After(l.after):
		case <-ctx.Done():
			yield(nil, ctx.Err())
			return
		}
		l.Mock.SendStreamingMessage(ctx, req)(yield)
	}
}

// A turn that is canceled before the peer has said which task it has begun waits a moment
// for that, so that the task can be canceled.
func TestCancelBeforeTheFirstEvent(t *testing.T) {
	for name, c := range map[string]struct {
		after, took time.Duration
		canceled    bool
	}{
		"the task is heard of":   {time.Second, time.Second, true},
		"nothing is heard of it": {time.Hour, 3 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				peer := &late{a2atest.New().Add(a2atest.Reply(a2atest.Block())), c.after, make(chan struct{})}
				node := must.Get(a2a.Remote("billing", "", a2a.WithClient(peer)))
				f := newRunner(t, node)
				ctx, cancel := context.WithCancel(context.Background())
				go func() {
					<-peer.sent
					cancel()
				}()
				begun := time.Now()
				var failed error
				for _, err := range f.Run(ctx, key, llm.UserText("help")) {
					failed = errors.Join(failed, err)
				}
				require.ErrorIs(t, failed, context.Canceled)
				require.Equal(t, c.took, time.Since(begun))
				require.Equal(t, c.canceled, cancellations(peer.Mock) == 1, "%v", peer.Calls())
			})
		})
	}
}

// A first message that gets no answer in time does not go back: the peer may be at work on it.
func TestFirstMessageWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &late{a2atest.New(), time.Hour, make(chan struct{})}
		node := must.Get(a2a.Remote("billing", "", a2a.WithClient(peer), a2a.WithTimeout(time.Minute)))
		f := newRunner(t, tree(t, scripted.New().Add("support", transfer()), node))
		events, _, err := f.Turn("I was charged twice")
		requireCode(t, err, a2a.CodeTimeout)
		require.NotErrorIs(t, err, agent.ErrRefused)
		require.Len(t, remotetest.Find[*event.Transfer](events), 1)
		require.Equal(t, "billing", f.active(t))
	})
}

// A client of one's own may answer with the library's plain errors, which are as final
// as those that came over a wire: nothing is asked again and again.
func TestPlainErrorsAreAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := a2atest.New().Add(a2atest.Reply(a2atest.Text("Well, "), a2atest.Fail(errors.New("the line went dead"))))
		node := must.Get(a2a.Remote("billing", "", a2a.WithClient(peer)))
		f := newRunner(t, node)
		begun := time.Now()
		_, _, err := f.Turn("hello")
		requireCode(t, err, a2a.CodeTaskGone)
		require.Zero(t, time.Since(begun))
	})
}
