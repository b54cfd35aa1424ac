// Package mcpserver serves a tree of agents as a server of the Model Context Protocol: one
// tool, ask, hands a message to the tree and returns its answer. What happens meanwhile is
// told as progress. The conversation is the client's session, or the one that the client
// names. What the turn asks is asked by elicitation where the client can do that, and else
// stands in the result, with how to answer.
//
// It imports runner and access, and the protocol's Go SDK. Turns belong to the requests that
// began them: a client that cancels or goes away cuts its turn off, and package
// a2a/a2aserver is for turns that go on without whoever asked.
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

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/internal/option"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/tools"
)

// SessionPrefix begins the ids of all sessions that clients reach, so that they reach no
// others.
const SessionPrefix = "mcp-"

// idleTimeout is how long a session of a client over HTTP is kept that sends nothing. Its
// conversation stays in the store.
const idleTimeout = time.Hour

// Server serves a tree. It is safe for concurrent use.
type Server struct {
	runner atomic.Pointer[runner.Runner]
	config
	secret []byte   // marks the ids of sessions over HTTP with their users
	users  sync.Map // of clients over HTTP by their names, with the rights that they had last
	web    http.Handler
}

type config struct {
	description string
	version     string
	user        string
	access      access.Options
	deciders    live.Deciders
	turns       *access.Limit
	logger      *slog.Logger
}

// Option configures a Server.
type Option func(*config)

// WithDescription says what the tree is for, in the description of its tool. The default
// is the description of the root agent.
func WithDescription(text string) Option { return func(c *config) { c.description = text } }

// WithVersion sets the version that clients are told.
func WithVersion(v string) Option { return func(c *config) { c.version = v } }

// WithUser sets whose sessions clients have that nobody has asked who they are. The default is
// session.DefaultUser.
func WithUser(name string) Option { return func(c *config) { c.user = name } }

// WithAccess says who may call over HTTP, and from where.
func WithAccess(o access.Options) Option { return func(c *config) { c.access = o } }

// WithApprover says who may decide about a call where agent, tool and rule leave it open. The default is tools.ByStaff.
func WithApprover(by tools.By) Option { return func(c *config) { c.deciders.Standard = by } }

// WithLimit bounds the turns that run at the same time, for each user and for all; a turn that waits for its user does not count. The
// limit may be shared with other APIs. Defaults to 32, and 256 for all users.
func WithLimit(l *access.Limit) Option { return func(c *config) { c.turns = l } }

// WithLogger logs what clients do not get to know. Without it nothing is logged.
func WithLogger(l *slog.Logger) Option { return func(c *config) { c.logger = l } }

// New makes a server of a tree that the runner runs. The error says what is wrong with an
// option.
func New(r *runner.Runner, opts ...Option) (*Server, error) {
	if r == nil {
		return nil, errors.New("mcpserver: the runner is nil")
	}
	s := &Server{secret: make([]byte, 32)}
	s.user, s.version, s.turns = session.DefaultUser, "1", access.NewLimit(32, 256)
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
	_, _ = rand.Read(s.secret) // never fails
	// Pages of other origins name their session by the first header, and find out by the others why they were refused.
	s.access.Expose = append(slices.Clip(s.access.Expose), "Mcp-Session-Id", "Retry-After", "WWW-Authenticate")
	guard, err := access.New(s.access)
	if err != nil {
		return nil, err
	}
	streams := sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server {
		name := s.userOf(r.Context())
		return s.connection(name, func() access.User { // with the rights that they have now
			if u, ok := s.users.Load(name); ok {
				return u.(access.User)
			}
			return access.User{Name: name}
		})
	}, &sdk.StreamableHTTPOptions{SessionTimeout: idleTimeout, Logger: s.logger, DisableLocalhostProtection: true}) // the guard looks at hosts
	s.web = guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u := access.UserOf(r.Context()); u.Name != "" {
			s.users.Store(u.Name, u)
		}
		if id := r.Header.Get("Mcp-Session-Id"); id != "" && !s.owns(s.userOf(r.Context()), id) {
			http.Error(w, "there is no such session", http.StatusNotFound)
			return
		}
		streams.ServeHTTP(w, r)
	}))
	return s, nil
}

// ServeHTTP serves clients over streamable HTTP.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.web.ServeHTTP(w, r) }

// Serve serves one client over its input and output, such as those of the process, until
// the input or ctx ends. Nothing else may be written to the output.
func (s *Server) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	err := s.connection(s.user, func() access.User { return access.User{Name: s.user} }).Run(ctx, &sdk.IOTransport{Reader: in, Writer: out})
	if errors.Is(err, io.EOF) || ctx.Err() != nil {
		return nil
	}
	return err
}

// Swap serves another tree from the next message on.
func (s *Server) Swap(r *runner.Runner) { s.runner.Store(r) }

func (s *Server) userOf(ctx context.Context) string {
	return cmp.Or(access.UserOf(ctx).Name, s.user)
}

// mark ties the id of a session to its user: ids are no secrets, and others must not use them.
func (s *Server) mark(user, id string) string {
	m := hmac.New(sha256.New, s.secret)
	m.Write([]byte(user + "\x00" + id))
	return id + "." + hex.EncodeToString(m.Sum(nil)[:16])
}

func (s *Server) owns(user, marked string) bool {
	id, _, _ := strings.Cut(marked, ".")
	return hmac.Equal([]byte(s.mark(user, id)), []byte(marked))
}

// connection makes what serves one session of a client, with a conversation of its own.
func (s *Server) connection(user string, caller func() access.User) *sdk.Server {
	root := s.runner.Load().Tree().Root().Agent
	id := strings.ToLower(rand.Text())
	c := &connection{server: s, user: user, caller: caller, session: SessionPrefix + id}
	server := sdk.NewServer(&sdk.Implementation{Name: root.Name(), Version: s.version}, &sdk.ServerOptions{
		Logger: s.logger, GetSessionID: func() string { return s.mark(user, id) },
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
	})
	description := "Hands a message to " + root.Name() + " and returns the answer. The conversation goes on from call to call."
	if about := cmp.Or(s.description, root.Description()); about != "" {
		description += " What it is for: " + about
	}
	sdk.AddTool(server, &sdk.Tool{Name: "ask", Title: "Ask " + root.Name(), Description: description}, c.ask)
	return server
}
