package mcp

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/agentarbor/arbor/internal/nearest"
	"github.com/agentarbor/arbor/internal/schema"
	"github.com/agentarbor/arbor/internal/visible"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/tools"
)

// The limits of a list of tools, and those of one tool: its description in characters, its schema in bytes.
const (
	maxPages       = 100
	maxListed      = 10_000
	maxDescription = 8 << 10
	maxSchema      = 64 << 10
)

// listing is the last list of tools.
type listing struct {
	of       *conn
	digest   [sha256.Size]byte
	registry *tools.Registry
	problem  error
}

// list requests the tools and stores them. If the list has not changed, it keeps the registry.
func (s *Server) list(ctx context.Context, c *conn) error {
	c.stale.Store(false) // first, so that a change meanwhile is not lost
	found, err := c.tools(ctx)
	if err != nil {
		c.stale.Store(true)
		return s.errorf("its tools cannot be listed: %s", plain(err))
	}
	b, err := json.Marshal(found)
	if err != nil {
		return s.errorf("its tools cannot be read: %w", err)
	}
	next := listing{of: c, digest: sha256.Sum256(b)}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listing.registry != nil && s.listing.digest == next.digest {
		s.listing.of = c
		return nil
	}
	next.registry, next.problem = s.registry(found)
	s.listing = next
	return nil
}

// tools returns all pages of the list.
func (c *conn) tools(ctx context.Context) (all []*sdk.Tool, err error) {
	if init := c.session.InitializeResult(); init == nil || init.Capabilities == nil || init.Capabilities.Tools == nil {
		return nil, nil
	}
	params := &sdk.ListToolsParams{}
	for range maxPages {
		page, err := c.session.ListTools(ctx, params)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Tools...)
		if page.NextCursor == "" || len(all) >= maxListed {
			return all, nil
		}
		params = &sdk.ListToolsParams{Cursor: page.NextCursor}
	}
	return nil, fmt.Errorf("the list has more than %d pages", maxPages)
}

// registry creates the tools for the server's list. The error reports the tools that are left out.
func (s *Server) registry(found []*sdk.Tool) (*tools.Registry, error) {
	found = slices.DeleteFunc(slices.Clone(found), func(t *sdk.Tool) bool { return t == nil })
	var problems []string
	left := func(name, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("the tool %s is left out: %s", visible.Line(visible.Cut(name, 100)), fmt.Sprintf(format, args...)))
	}
	for _, p := range s.filter {
		if !slices.ContainsFunc(found, func(t *sdk.Tool) bool { return matches(p, t.Name) }) {
			problems = append(problems, fmt.Sprintf("it has no tool %s", p))
		}
	}
	if len(s.filter) > 0 {
		found = slices.DeleteFunc(found, func(t *sdk.Tool) bool { return !chosen(s.filter, t.Name) })
	}
	if n := len(found); n > s.maxTools {
		found = found[:s.maxTools]
		problems = append(problems, fmt.Sprintf("it lists %d tools, of which the first %d are used: choose those that are needed by their names", n, s.maxTools))
	}
	own := make([]string, 0, len(found))
	for _, t := range found {
		own = append(own, t.Name)
	}
	for _, t := range s.extras() {
		own = append(own, t.info.Own)
	}
	var refused error
	for _, p := range s.approval {
		if p != "*" && !slices.ContainsFunc(own, func(name string) bool { return s.approves(p, name) }) {
			problem := fmt.Sprintf("calls of %s are to be approved, and it has no such tool%s; all calls are refused until that is mended", p, nearest.Hint(p, own))
			problems, refused = append(problems, problem), s.errorf("%s", problem)
		}
	}
	var all []tools.Tool
	taken := map[string]bool{}
	add := func(info tools.Info, call func(tools.Context, json.RawMessage) (any, error), err error) {
		name := info.Own
		if refused != nil {
			call = func(tools.Context, json.RawMessage) (any, error) { return nil, refused }
		} else if slices.ContainsFunc(s.approval, func(p string) bool { return s.approves(p, name) }) {
			info.Approval = tools.Ask
		}
		var t tools.Tool
		if err == nil {
			info.Parameters, err = schema.Usable(info.Parameters)
		}
		if err == nil {
			t, err = tools.New(info, call)
		}
		switch {
		case err != nil:
			left(name, "%s", visible.Cut(err.Error(), 300))
		case taken[t.Info().Name]:
			left(name, "another one has its name, %s", t.Info().Name)
		default:
			taken[t.Info().Name] = true
			all = append(all, t)
		}
	}
	for _, t := range found {
		add(s.tool(t))
	}
	for _, t := range s.extras() {
		add(t.info, t.call, nil)
	}
	registry, err := tools.NewRegistry(all...)
	if err != nil {
		return nil, s.errorf("%w", err)
	}
	if len(problems) > 6 {
		problems = append(problems[:5], fmt.Sprintf("and %d more", len(problems)-5))
	}
	if len(problems) > 0 {
		err = s.errorf("%s", strings.Join(problems, "; "))
	}
	return registry, err
}

// approves reports whether a pattern of WithApproval matches a tool. name is the server's name for the tool.
func (s *Server) approves(pattern, name string) bool {
	return matches(pattern, name) || matches(pattern, legal(s.prefix+name))
}

// tool returns the arguments that create a tool for one of the server's list.
func (s *Server) tool(t *sdk.Tool) (info tools.Info, call func(tools.Context, json.RawMessage) (any, error), err error) {
	info.Own = t.Name
	parameters, err := json.Marshal(t.InputSchema)
	switch {
	case err != nil:
		return info, nil, err
	case len(parameters) > maxSchema:
		return info, nil, fmt.Errorf("its schema has %d bytes, and at most %d are possible", len(parameters), maxSchema)
	case t.InputSchema == nil:
		parameters = json.RawMessage(`{"type":"object"}`)
	case t.Name == "":
		return info, nil, errors.New("it has no name")
	}
	info = tools.Info{
		ToolSpec: llm.ToolSpec{Name: legal(s.prefix + t.Name), Description: visible.Cut(cmp.Or(t.Description, t.Title), maxDescription), Parameters: parameters},
		Own:      t.Name, Source: s.name, Idempotent: chosen(s.idempotent, t.Name), ReadOnly: t.Annotations != nil && t.Annotations.ReadOnlyHint,
		Destructive: destructive(t.Annotations),
		Timeout:     s.timeout, MaxOutput: s.maxOutput,
	}
	return info, func(ctx tools.Context, input json.RawMessage) (any, error) { return s.call(ctx, info.Own, input) }, nil
}

// destructive reports whether a tool is destructive according to its annotations. As the protocol requires, a tool
// without annotations is.
func destructive(a *sdk.ToolAnnotations) bool {
	return a == nil || !a.ReadOnlyHint && (a.DestructiveHint == nil || *a.DestructiveHint)
}

// legal converts a name to one that every endpoint accepts. Servers may use dots and slashes, which endpoints refuse,
// and a digit at the beginning, which Gemini refuses.
func legal(name string) string {
	mapped := strings.Map(func(c rune) rune {
		if tools.CheckName(string(c)) != nil {
			return '_'
		}
		return c
	}, name)
	if strings.IndexAny(mapped, "-0123456789") == 0 {
		mapped = "_" + mapped
	}
	if len(mapped) <= 64 {
		return mapped
	}
	sum := sha256.Sum256([]byte(name))
	return mapped[:55] + "_" + hex.EncodeToString(sum[:4])
}

func chosen(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, name) })
}

func matches(pattern, name string) bool {
	ok, _ := path.Match(pattern, name) // New has checked the pattern
	return ok || pattern == name
}
