package a2a

import (
	"context"
	"iter"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// Client contains the operations of A2A 1.0, section 3.1, that a remote agent calls. The client of
// github.com/a2aproject/a2a-go implements it. Implementations must be safe for concurrent use. A stream ends with its
// first error, or when its consumer breaks out of the loop.
type Client interface {
	SendStreamingMessage(ctx context.Context, req *sdk.SendMessageRequest) iter.Seq2[sdk.Event, error]
	SendMessage(ctx context.Context, req *sdk.SendMessageRequest) (sdk.SendMessageResult, error)
	GetTask(ctx context.Context, req *sdk.GetTaskRequest) (*sdk.Task, error)
	SubscribeToTask(ctx context.Context, req *sdk.SubscribeToTaskRequest) iter.Seq2[sdk.Event, error]
	CancelTask(ctx context.Context, req *sdk.CancelTaskRequest) (*sdk.Task, error)
}

// WithClient sets the client for all calls. No card is fetched, so that the card's URL may be "". Options for cards,
// connections and credentials have no effect.
func WithClient(c Client) Option { return func(r *remote) { r.given = c } }
