// Package mcpserver serves a tree of agents as a server of the Model Context Protocol (MCP). Its only tool, ask, sends a
// message to the tree and returns the answer. The server reports the turn's progress. Each session of a client has its
// own conversation, and a call can name another one. If a turn asks a question, the server asks it by elicitation if the
// client supports that. Otherwise the result contains the question, and how to answer it.
//
// A turn belongs to the request that started it: if the client cancels or disconnects, the turn is interrupted. Use
// package a2a/a2aserver for turns that continue without their client.
package mcpserver

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/live"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// sessionPrefix is the prefix of the ids of all sessions that clients can use. They cannot use other sessions.
const sessionPrefix = "mcp-"

// idleTimeout is the time after which the server ends an idle session of a client over HTTP. The store keeps its
// conversation.
const idleTimeout = time.Hour

// Server serves a tree. It is an http.Handler and safe for concurrent use. The zero value is not usable; see [New].
type Server struct {
	runner atomic.Pointer[runner.Runner]
	config
	secret []byte   // the key that signs the ids of sessions over HTTP for their users
	users  sync.Map // the users of clients over HTTP by name, with the rights of their last request
	web    http.Handler
}

type config struct {
	description string
	user        string
	access      access.Options
	deciders    live.Deciders
	turns       *access.Limit
	logger      *slog.Logger
}

// Option configures a [Server].
type Option func(*config)

// WithDescription sets the purpose of the tree in the description of the tool. Defaults to the description of the root
// agent.
func WithDescription(text string) Option { return func(c *config) { c.description = text } }

// WithUser sets the user of clients that are not authenticated. Defaults to session.DefaultUser.
func WithUser(name string) Option { return func(c *config) { c.user = name } }

// WithAccess sets which clients may call over HTTP. Defaults to all, without authentication, except pages of other origins.
func WithAccess(o access.Options) Option { return func(c *config) { c.access = o } }

// WithApprover sets who may decide about a call if the agent, the tool and the rules do not set it. Defaults to
// tools.ByStaff.
func WithApprover(by tools.By) Option { return func(c *config) { c.deciders.Standard = by } }

// WithLimit sets the limit of the turns that each user, and all users together, may run at the same time. A turn that
// waits for its user does not count. Other APIs may share the limit. Defaults to 32 for a user and 256 for all users.
func WithLimit(l *access.Limit) Option { return func(c *config) { c.turns = l } }

// WithLogger sets the logger for errors that clients do not receive. By default nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

// New returns a server for the tree of a runner. The caller closes the runner after the last request. The error names the
// invalid option.
func New(r *runner.Runner, opts ...Option) (*Server, error) {
	if r == nil {
		return nil, errors.New("mcpserver: the runner is nil")
	}
	s := &Server{secret: make([]byte, 32)}
	s.user, s.turns = session.DefaultUser, access.NewLimit(32, 256)
	if err := option.Apply(&s.config, opts); err != nil {
		return nil, fmt.Errorf("mcpserver: %w", err)
	}
	if err := s.deciders.Standard.Check(); err != nil {
		return nil, fmt.Errorf("mcpserver: the approver: %w", err)
	}
	if s.turns == nil {
		return nil, errors.New("mcpserver: the limit is nil")
	}
	s.runner.Store(r)
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	_, _ = rand.Read(s.secret) // cannot fail
	// Pages of other origins need the first header to name their session, and the others after a refusal.
	s.access.Expose = append(slices.Clip(s.access.Expose), "Mcp-Session-Id", "Retry-After", "WWW-Authenticate")
	guard, err := access.New(s.access)
	if err != nil {
		return nil, err
	}
	streams := sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server {
		name := s.userOf(r.Context())
		return s.connection(name, func() access.User { // the rights of the last request, which may have changed
			if u, ok := s.users.Load(name); ok {
				return u.(access.User)
			}
			return access.User{Name: name}
		})
	}, &sdk.StreamableHTTPOptions{SessionTimeout: idleTimeout, Logger: s.logger, DisableLocalhostProtection: true}) // the guard checks hosts
	s.web = guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u := access.UserOf(r.Context()); u.Name != "" {
			s.users.Store(u.Name, u)
		}
		if id := r.Header.Get("Mcp-Session-Id"); id != "" && !s.owns(s.userOf(r.Context()), id) {
			http.Error(w, "the session does not exist", http.StatusNotFound)
			return
		}
		streams.ServeHTTP(w, r)
	}))
	return s, nil
}

// ServeHTTP serves clients over streamable HTTP.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.web.ServeHTTP(w, r) }

// Serve serves one client over an input and an output, such as stdin and stdout, until the input or ctx ends. The program
// must not write anything else to the output.
func (s *Server) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	err := s.connection(s.user, func() access.User { return access.User{Name: s.user} }).Run(ctx, &sdk.IOTransport{Reader: in, Writer: out})
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil
	}
	return err
}

// Swap replaces the runner for later messages. Running turns keep theirs.
func (s *Server) Swap(r *runner.Runner) { s.runner.Store(r) }

func (s *Server) userOf(ctx context.Context) string {
	return cmp.Or(access.UserOf(ctx).Name, s.user)
}

// sign returns the id of a session with a signature for its user, because ids are not secret and other users must not use
// them.
func (s *Server) sign(user, id string) string {
	m := hmac.New(sha256.New, s.secret)
	m.Write([]byte(user + "\x00" + id))
	return id + "." + hex.EncodeToString(m.Sum(nil)[:16])
}

func (s *Server) owns(user, signed string) bool {
	id, _, _ := strings.Cut(signed, ".")
	return hmac.Equal([]byte(s.sign(user, id)), []byte(signed))
}

// connection returns the server of one session of a client, which has its own conversation.
func (s *Server) connection(user string, caller func() access.User) *sdk.Server {
	root := s.runner.Load().Tree().Root().Agent
	id := strings.ToLower(rand.Text())
	c := &connection{server: s, user: user, caller: caller, session: sessionPrefix + id}
	server := sdk.NewServer(&sdk.Implementation{Name: root.Name(), Version: "1"}, &sdk.ServerOptions{
		Logger: s.logger, GetSessionID: func() string { return s.sign(user, id) },
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
	})
	description := "Sends a message to " + root.Name() + " and returns the answer. Later calls continue the conversation."
	if about := cmp.Or(s.description, root.Description()); about != "" {
		description += " Purpose: " + about
	}
	sdk.AddTool(server, &sdk.Tool{Name: "ask", Title: "Ask " + root.Name(), Description: description}, c.ask)
	return server
}
