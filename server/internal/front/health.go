package front

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
)

// Health returns a handler that answers 200 if check returns no error, and 503 otherwise. A nil check always passes.
func Health(check func(context.Context) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			WriteProblem(w, &Fault{Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Detail: "this path allows only GET, HEAD"}, "")
		case check != nil && check(r.Context()) != nil:
			h.Set("Retry-After", "1")
			WriteProblem(w, &Fault{Status: http.StatusServiceUnavailable, Code: "stopping", Detail: "no turns can be served"}, "")
		default:
			h.Set("Content-Type", JSON)
			h.Set("Cache-Control", "no-store")
			_, _ = w.Write([]byte("{\"status\":\"ok\"}\n"))
		}
	})
}

// Ready returns a check that fails if the server cannot run turns. The check acquires and releases a lease as a turn
// does, because a store may be able to read but not to write. It fails if the store does not answer within a second.
func Ready(turns *live.Turns) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if turns.Stopping() {
			return live.ErrClosed
		}
		store, key := turns.Store(), session.ID("ready")
		lease, err := store.Write(ctx, key, session.Write{Acquire: session.Self()})
		if errors.Is(err, agent.ErrSessionBusy) { // another server makes the same check
			return nil
		} else if err != nil {
			return err
		}
		_, err = store.Write(ctx, key, session.Write{Lease: lease, Release: true})
		return err
	}
}
