// Package agentmcp opens the servers of the Model Context Protocol that agent files name, for agentfile.WithMCP.
// Programs whose files name no such servers need neither this package nor the protocol's SDK.
package agentmcp

import (
	"errors"
	"log/slog"
	"sync"

	"github.com/agentarbor/arbor/agentfile"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/tools/mcp"
)

// Servers contains the servers of one program. Agents whose files describe a server identically share it, even if their
// tree is loaded again. The server ends with the last of these trees. Servers is safe for concurrent use.
type Servers struct {
	opts []mcp.Option

	mu   sync.Mutex
	open map[string]*shared // by description
}

// shared is a server that several agents use.
type shared struct {
	*mcp.Server
	users int
}

// use is one agent's use of a server.
type use struct {
	*mcp.Server
	end func() error
}

// Close ends the use. The last Close also closes the server.
func (u use) Close() error { return u.end() }

// New returns an empty set. The options apply to all servers, before the options in a file.
func New(opts ...mcp.Option) *Servers {
	return &Servers{opts: opts, open: map[string]*shared{}}
}

// Opener returns the functions that open servers of a new set and close all of them. The servers log to the given
// logger. Opener is the value of the field Servers of cli.MCP.
func Opener(logger *slog.Logger) (open func(agentfile.MCPServer) (tools.Set, error), end func() error) {
	s := New(mcp.WithLogger(logger))
	return s.Open, s.Close
}

// Open returns the server of a description for one agent. The result is an io.Closer. The server starts when its tools
// are first needed.
func (s *Servers) Open(c agentfile.MCPServer) (tools.Set, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := string(event.EncodeJSON(c))
	if found := s.open[key]; found != nil {
		return s.use(key, found), nil
	}
	var at mcp.Endpoint = mcp.Stdio{Command: c.Command, Args: c.Args, Env: c.Env, Dir: c.Dir}
	if c.URL != "" {
		at = mcp.HTTP{URL: c.URL, Headers: c.Headers}
	}
	opts := append(s.opts[:len(s.opts):len(s.opts)], mcp.WithPrefix(c.Prefix), mcp.WithTools(c.Tools...), mcp.WithApproval(c.Approve...), mcp.WithTimeout(c.Timeout), mcp.WithStartTimeout(c.StartTimeout))
	if c.Resources {
		opts = append(opts, mcp.WithResources())
	}
	if c.Prompts {
		opts = append(opts, mcp.WithPrompts())
	}
	if c.Required {
		opts = append(opts, mcp.Required())
	}
	made, err := mcp.New(c.Name, at, opts...)
	if err != nil {
		return nil, err
	}
	s.open[key] = &shared{Server: made}
	return s.use(key, s.open[key]), nil
}

// use adds a user to a server. The caller holds mu.
func (s *Servers) use(key string, of *shared) tools.Set {
	of.users++
	return use{of.Server, sync.OnceValue(func() error {
		s.mu.Lock()
		of.users--
		last := of.users == 0 && s.open[key] == of
		if last {
			delete(s.open, key)
		}
		s.mu.Unlock()
		if last {
			return of.Server.Close()
		}
		return nil
	})}
}

// Close closes all servers in parallel.
func (s *Servers) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var group sync.WaitGroup
	errs := make(chan error, len(s.open))
	for _, server := range s.open {
		group.Go(func() { errs <- server.Close() })
	}
	group.Wait()
	close(errs)
	var all []error
	for err := range errs {
		all = append(all, err)
	}
	return errors.Join(all...)
}
