package push

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// Store keeps push notification configs over restarts of a server. The
// server reads all of them when it starts and is then the only one to change
// them: a store belongs to one server at a time. The configs hold tokens and
// credentials that are not the server's own, so a store keeps them where nobody
// else can read them. It must be safe for concurrent use.
type Store interface {
	// Put inserts the record, or replaces that of the same tenant, caller, task and
	// config id. When it returns nil, the record survives a crash.
	Put(ctx context.Context, r Record) error
	// Delete removes the record with r's tenant, caller, task and config id. A missing
	// record is not an error.
	Delete(ctx context.Context, r Record) error
	// All yields every record, in any order.
	All(ctx context.Context) iter.Seq2[Record, error]
}

// Record is a push notification config and whose it is. It holds secrets;
// printed or logged, it shows only the ids.
type Record struct {
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
func (r Record) String() string {
	return fmt.Sprintf("push notification config %s of task %s", r.Config.ID, r.Config.TaskID)
}

// GoString is String.
func (r Record) GoString() string { return r.String() }

// LogValue is String, for log/slog.
func (r Record) LogValue() slog.Value { return slog.StringValue(r.String()) }

// recordKey is what a store knows a record by.
type recordKey struct{ tenant, caller, task, id string }

func (r Record) key() recordKey {
	return recordKey{r.Tenant, r.Caller, string(r.Config.TaskID), r.Config.ID}
}

func (r Record) task() Task { return Task{r.Tenant, r.Caller, r.Config.TaskID} }
