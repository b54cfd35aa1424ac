package a2aserver

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/a2a/internal/cardjson"
	"github.com/agentarbor/arbor/a2a/internal/wire"
	"github.com/agentarbor/arbor/agent"
)

// The default media types of messages, and the media types of answers.
var (
	defaultInput = []string{"text/plain", "text/markdown", "application/json", "image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"}
	outputModes  = []string{"text/plain", "application/json"}
)

// serve creates the checks and the HTTP bindings for the operations.
func (s *Server) serve() error {
	if s.card.Signer != nil && s.base == nil {
		return errors.New("a2aserver: to sign the card, set the server's public URL with WithURL")
	}
	tenants := slices.DeleteFunc(slices.Sorted(maps.Keys(s.trees)), func(name string) bool { return name == "" })
	s.checked = wire.NewChecks(handler{s}, s.inputModes(), outputModes, tenants, s.web.Streams, s.protocolError)
	var legacy func(*sdk.AgentCard) ([]byte, error)
	if s.compat != nil {
		legacy = s.compat.Card
	}
	tree := func(tenant string) *agent.Tree { return s.trees[tenant].turns.Runner().Tree() }
	cards := newCardDocuments(s.publicURL(), tree, func(tenant, base string) ([]byte, error) {
		card, err := s.cardAt(tenant, base)
		if err != nil {
			return nil, err
		}
		return renderCard(card, legacy, s.card.Signer)
	}, s.logger)
	f := wire.Front{Handler: s.checked, Card: cards.serve, EncodeCard: cardjson.Marshal, Auth: s.auth, Tenants: tenants,
		Hosts: s.web.Hosts, Origins: s.web.Origins, MaxBody: s.web.MaxBody, KeepAlive: s.web.KeepAlive, BodyTimeout: s.web.BodyTimeout,
		WriteTimeout: s.web.WriteTimeout, Logger: s.logger}
	if s.compat != nil {
		f.Legacy = &s.compat.Legacy
	}
	if s.base != nil {
		f.Hosts = append(slices.Clone(f.Hosts), s.base.Host)
	}
	var err error
	s.front, err = wire.New(f)
	return err
}

func (s *Server) inputModes() []string {
	if len(s.card.InputModes) > 0 {
		return s.card.InputModes
	}
	return defaultInput
}

// publicURL returns the base URL without a trailing slash, or "" if it is not known.
func (s *Server) publicURL() string {
	if s.base == nil {
		return ""
	}
	return strings.TrimSuffix(s.base.String(), "/")
}

// Card returns the card of a tenant's tree. The tenant "" is the server's own tree. It requires [WithURL].
func (s *Server) Card(tenant string) (*sdk.AgentCard, error) {
	return s.cardAt(tenant, s.publicURL())
}

func (s *Server) cardAt(tenant, base string) (*sdk.AgentCard, error) {
	t := s.trees[tenant]
	if t == nil {
		return nil, fmt.Errorf("a2aserver: unknown tenant %q", tenant)
	}
	cfg := cardConfig{base: base, tenant: tenant, version: s.card.Version, provider: s.card.Provider, push: s.hooks != nil, extended: s.auth != nil,
		more: s.more, inputModes: s.inputModes(), outputModes: outputModes}
	if s.auth != nil {
		cfg.schemes = s.auth.Schemes()
	}
	if s.compat != nil {
		cfg.legacy = base + "/rpc"
		if tenant != "" {
			cfg.legacy = base + "/" + tenant + "/rpc"
		}
	}
	return buildCard(t.turns.Runner().Tree(), cfg)
}
