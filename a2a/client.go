package a2a

import (
	"context"
	"iter"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// Client is what a remote node calls: the operations of A2A 1.0, section 3.1, that
// a conversation needs. The client of github.com/a2aproject/a2a-go is one. It must
// be safe for concurrent use; a stream ends with its first error, or when its
// consumer breaks out of it.
type Client interface {
	SendStreamingMessage(ctx context.Context, req *sdk.SendMessageRequest) iter.Seq2[sdk.Event, error]
	SendMessage(ctx context.Context, req *sdk.SendMessageRequest) (sdk.SendMessageResult, error)
	GetTask(ctx context.Context, req *sdk.GetTaskRequest) (*sdk.Task, error)
	SubscribeToTask(ctx context.Context, req *sdk.SubscribeToTaskRequest) iter.Seq2[sdk.Event, error]
	CancelTask(ctx context.Context, req *sdk.CancelTaskRequest) (*sdk.Task, error)
}

// WithClient has the remote agent make its calls through c. No card is
// fetched, so that the card's URL may be ""; options for cards, connections and
// credentials then have nothing to do.
func WithClient(c Client) Option { return func(r *remote) { r.given = c } }
