// Command service serves a tree of agents over HTTP. A message starts a turn, which continues when its client
// disconnects. Clients can resume a stream of events. A separate request decides about a call that waits for an
// approval. Any number of processes share one database, and each of them serves every session. The program uses the
// endpoint of the OPENAI_* variables, or the offline model if none is set.
//
//	SERVICE_TOKENS=ann=a-secret go run ./examples/service --db service.db
//
// The page docs/service.md explains it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/offline"
	"github.com/agentarbor/arbor/llm/openai"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sqlite"
	"github.com/agentarbor/arbor/session/tail"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "the address to listen at; port 0 is any free one")
	db := flag.String("db", "service.db", "the SQLite file of the sessions")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, os.Stdout, *addr, *db, os.Getenv("SERVICE_TOKENS")); err != nil {
		fmt.Fprintln(os.Stderr, "service:", err)
		os.Exit(1)
	}
}

// serve serves until the context ends, and prints its address.
func serve(ctx context.Context, out io.Writer, addr, db, tokens string) error {
	users, err := readTokens(tokens)
	if err != nil {
		return err
	}
	file, err := sqlite.Open(db)
	if err != nil {
		return err
	}
	defer file.Close()
	model, err := openai.FromEnvOr(os.Getenv, offline.New())
	if err != nil {
		return err
	}
	handler, turns, err := newService(file, model, users, slog.Default())
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler}
	access.Harden(server)
	fmt.Fprintf(out, "http://%s\n", listener.Addr())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// This interrupts running turns. Another process, or the next one, adopts them.
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return errors.Join(turns.Close(last), server.Shutdown(last))
}

// readTokens parses user=token,user=token.
func readTokens(list string) (map[string]string, error) {
	users := make(map[string]string)
	for entry := range strings.SplitSeq(list, ",") {
		user, token, ok := strings.Cut(strings.TrimSpace(entry), "=")
		if !ok || user == "" || token == "" {
			return nil, errors.New("SERVICE_TOKENS must be a list such as ann=SECRET,bob=SECRET")
		}
		users[token] = user
	}
	return users, nil
}

// service is the API. It has no state besides the logs of the sessions.
type service struct {
	turns  *live.Turns
	logger *slog.Logger
}

// newService returns the API on a store that several processes may share.
func newService(store session.Store, model llm.Model, users map[string]string, logger *slog.Logger) (http.Handler, *live.Turns, error) {
	root, err := desk(model)
	if err != nil {
		return nil, nil, err
	}
	followed, err := tail.New(store)
	if err != nil {
		return nil, nil, err
	}
	run, err := runner.New(root, followed, runner.WithStreaming())
	if err != nil {
		return nil, nil, err
	}
	turns, err := live.New(run, followed, live.WithApp(app), live.WithAdoption(time.Second), live.WithLogger(logger))
	if err != nil {
		return nil, nil, err
	}
	secrets, err := access.Secrets(users)
	if err != nil {
		return nil, nil, err
	}
	bearer, err := access.Bearer(secrets)
	if err != nil {
		return nil, nil, err
	}
	guard, err := access.New(access.Options{Users: bearer})
	if err != nil {
		return nil, nil, err
	}
	s := &service{turns, logger}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /sessions/{id}/messages", s.message)
	mux.HandleFunc("GET /sessions/{id}", s.status)
	mux.HandleFunc("GET /sessions/{id}/events", s.events)
	mux.HandleFunc("POST /sessions/{id}/decisions", s.decide)
	mux.HandleFunc("POST /sessions/{id}/cancel", s.cancel)
	return guard.Handler(mux), turns, nil
}

// app is the app in the keys of all sessions.
const app = "service"

// key returns the key of one of the caller's sessions. Callers cannot reach sessions of others, because those keys have
// another user.
func key(r *http.Request) session.Key {
	return session.Key{App: app, User: access.UserOf(r.Context()).Name, ID: r.PathValue("id")}
}

// message starts a turn, and answers when the message is stored.
func (s *service) message(w http.ResponseWriter, r *http.Request) {
	var in struct{ Text string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		s.refuse(w, fmt.Errorf("the body is not {\"text\": …}: %w", agent.ErrBadInput))
		return
	}
	turn, err := s.turns.Begin(r.Context(), key(r), llm.UserText(in.Text))
	s.accepted(w, turn, err)
}

// decide decides about a call that waits for an approval, and resumes the turn.
func (s *service) decide(w http.ResponseWriter, r *http.Request) {
	var in struct {
		CallID, Reason string
		Approved       bool
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		s.refuse(w, fmt.Errorf("the body is not {\"callId\": …, \"approved\": …}: %w", agent.ErrBadInput))
		return
	}
	d := runner.Decision{CallID: in.CallID, Approved: in.Approved, Reason: in.Reason, By: access.UserOf(r.Context()).Name}
	turn, err := s.turns.Resume(r.Context(), key(r), d)
	s.accepted(w, turn, err)
}

func (s *service) accepted(w http.ResponseWriter, turn *live.Turn, err error) {
	if err != nil {
		s.refuse(w, err)
		return
	}
	if turn.First == nil { // there was nothing to resume
		w.WriteHeader(http.StatusNoContent)
		return
	}
	answer(w, http.StatusAccepted, map[string]string{"turn": turn.First.TurnID})
}

// status returns what a newly opened page needs.
func (s *service) status(w http.ResponseWriter, r *http.Request) {
	now, err := s.turns.Look(r.Context(), key(r))
	if err != nil {
		s.refuse(w, err)
		return
	}
	pending := []map[string]any{}
	for _, call := range now.Pending {
		pending = append(pending, map[string]any{"callId": call.ToolCallID, "tool": call.Tool, "params": call.Params})
	}
	answer(w, http.StatusOK, map[string]any{"state": now.State, "agent": now.Agent, "pending": pending})
}

// events streams the events of a session, from the beginning or from the client's last position, until the client
// disconnects.
func (s *service) events(w http.ResponseWriter, r *http.Request) {
	stream := access.NewStream(r.Context(), w, 0)
	defer stream.Close()
	began := false
	for entry, err := range s.turns.Follow(stream.Context(), key(r), r.Header.Get("Last-Event-ID")) {
		switch {
		case err != nil && !began:
			s.refuse(w, err)
			return
		case err != nil, stream.SendJSON(entry.ID, entry.Event) != nil:
			return
		}
		began = true
	}
}

// cancel cancels the last turn.
func (s *service) cancel(w http.ResponseWriter, r *http.Request) {
	if _, err := s.turns.Cancel(r.Context(), key(r)); err != nil {
		s.refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// refuse answers with an error. Errors that the client cannot correct are only logged.
func (s *service) refuse(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	var tooMany *access.LimitError
	switch {
	case errors.Is(err, agent.ErrBadInput):
		status = http.StatusBadRequest
	case errors.Is(err, agent.ErrSessionBusy), errors.Is(err, agent.ErrConflict), errors.Is(err, runner.ErrNoApproval):
		status = http.StatusConflict
	case errors.As(err, &tooMany):
		status = http.StatusTooManyRequests
	case errors.Is(err, live.ErrClosed):
		status = http.StatusServiceUnavailable
	default:
		s.logger.Error("a request failed", "error", err)
		err = errors.New("internal error")
	}
	answer(w, status, map[string]string{"error": err.Error()})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(event.EncodeJSON(v), '\n'))
}
