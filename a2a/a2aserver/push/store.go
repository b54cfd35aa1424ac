package push

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

// Store keeps push notification configs over restarts of a server. The server reads all of them when it starts. After
// that, only this server may change them, so only one server may use a store at a time. The configs contain tokens and
// credentials of clients, so a store must keep them where no other user can read them. It must be safe for concurrent
// use.
type Store interface {
	// Put inserts the record, or replaces the record with the same tenant, caller, task and config id. After it
	// returned nil, the record survives a crash.
	Put(ctx context.Context, r Record) error
	// Delete deletes the record with r's tenant, caller, task and config id. A missing record is not an error.
	Delete(ctx context.Context, r Record) error
	// All yields every record, in any order.
	All(ctx context.Context) iter.Seq2[Record, error]
}

// Record is a push notification config with its owner. It contains secrets. Printed or logged, it shows only ids.
type Record struct {
	Tenant string `json:"tenant,omitempty"`
	Caller string `json:"caller,omitempty"`
	// Protocol is the version of the request that created the config; "" is 1.0. It determines the format of the
	// notifications.
	Protocol sdk.ProtocolVersion `json:"protocol,omitempty"`
	// Config contains its id and the id of its task.
	Config  sdk.PushConfig `json:"config"`
	Created time.Time      `json:"created"`
	// Ended is the time at which the webhook received the end of its task, or zero before that.
	Ended time.Time `json:"ended,omitzero"`
}

// String returns the ids of the record, without its secrets.
func (r Record) String() string {
	return fmt.Sprintf("push notification config %s of task %s", r.Config.ID, r.Config.TaskID)
}

// GoString returns the same as String.
func (r Record) GoString() string { return r.String() }

// LogValue returns the same as String, for log/slog.
func (r Record) LogValue() slog.Value { return slog.StringValue(r.String()) }

// recordKey identifies a record in a store.
type recordKey struct {
	Task
	id string
}

func (r Record) key() recordKey { return recordKey{r.task(), r.Config.ID} }

func (r Record) task() Task { return Task{r.Tenant, r.Caller, r.Config.TaskID} }
