package a2aserver

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// PushStore keeps push notification configs over restarts of a server. The
// server reads all of them when it starts and is then the only one to change
// them: a store belongs to one server at a time. The configs hold tokens and
// credentials that are not the server's own, so a store keeps them where nobody
// else can read them. It must be safe for concurrent use.
type PushStore interface {
	// Put inserts the record, or replaces that of the same tenant, caller, task and
	// config id. When it returns nil, the record survives a crash.
	Put(ctx context.Context, r PushRecord) error
	// Delete removes the record with r's tenant, caller, task and config id; that
	// there is none is no error.
	Delete(ctx context.Context, r PushRecord) error
	// All yields every record, in any order.
	All(ctx context.Context) iter.Seq2[PushRecord, error]
}

// PushRecord is a push notification config and whose it is. It holds secrets;
// printed or logged, it shows only the ids.
type PushRecord struct {
	Tenant string `json:"tenant,omitempty"`
	Caller string `json:"caller,omitempty"`
	// Protocol is the version of the request that made the config; "" is 1.0. It
	// decides the form of what is posted.
	Protocol sdk.ProtocolVersion `json:"protocol,omitempty"`
	// Config has its id and the id of its task.
	Config  sdk.PushConfig `json:"config"`
	Created time.Time      `json:"created"`
	// Ended is when the webhook heard that its task is over, zero before.
	Ended time.Time `json:"ended,omitzero"`
}

// String names the record without its secrets.
func (r PushRecord) String() string {
	return fmt.Sprintf("push notification config %s of task %s", r.Config.ID, r.Config.TaskID)
}

// GoString is String.
func (r PushRecord) GoString() string { return r.String() }

// LogValue is String, for log/slog.
func (r PushRecord) LogValue() slog.Value { return slog.StringValue(r.String()) }

// pushKey is what a store knows a record by.
type pushKey struct{ tenant, caller, task, id string }

func (r PushRecord) key() pushKey {
	return pushKey{r.Tenant, r.Caller, string(r.Config.TaskID), r.Config.ID}
}

func (r PushRecord) task() pushTask { return pushTask{r.Tenant, r.Caller, r.Config.TaskID} }
