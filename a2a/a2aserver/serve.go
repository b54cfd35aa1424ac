package a2aserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/a2a/internal/cardjson"
)

// What a tree can be given, if nobody says otherwise, and what it answers.
var (
	defaultInput = []string{"text/plain", "text/markdown", "application/json", "image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"}
	outputModes  = []string{"text/plain", "application/json"}
)

// serve puts the operations behind the checks and the HTTP bindings.
func (s *Server) serve() error {
	if s.card.Signer != nil && s.base == nil {
		return errors.New("a2aserver: a card that is signed needs the server's public URL, so that nobody else can choose it")
	}
	tenants := slices.DeleteFunc(slices.Sorted(maps.Keys(s.trees)), func(name string) bool { return name == "" })
	s.checked = newChecks(handler{s}, s.inputModes(), outputModes, tenants, s.web.MaxOpen, s.told)
	var legacy func(*sdk.AgentCard) ([]byte, error)
	if s.compat != nil {
		legacy = s.compat.Card
	}
	cards := newCardDocuments(s.publicURL(), func(tenant, base string) ([]byte, error) {
		card, err := s.cardAt(tenant, base)
		if err != nil {
			return nil, err
		}
		return renderCard(card, legacy, s.card.Signer)
	}, s.logger)
	f := front{handler: s.checked, card: cards.serve, encodeCard: cardjson.Marshal, compat: s.compat, auth: s.auth, tenants: tenants,
		hosts: s.web.Hosts, origins: s.web.Origins, maxBody: s.web.MaxBody, keepAlive: s.web.KeepAlive, bodyTimeout: s.web.BodyTimeout,
		writeTimeout: s.web.WriteTimeout, logger: s.logger}
	if s.base != nil {
		f.hosts = append(slices.Clone(f.hosts), s.base.Host)
	}
	var err error
	s.front, err = newFront(f)
	return err
}

func (s *Server) inputModes() []string {
	if len(s.card.InputModes) > 0 {
		return s.card.InputModes
	}
	return defaultInput
}

// publicURL is the base URL without a slash at its end, "" if it is not known.
func (s *Server) publicURL() string {
	if s.base == nil {
		return ""
	}
	return strings.TrimSuffix(s.base.String(), "/")
}

// baseKey is the context's key of the base URL by which a request reached the server.
type baseKey struct{}

func withBase(ctx context.Context, base string) context.Context {
	return context.WithValue(ctx, baseKey{}, base)
}

// baseOf returns "" for a request that came over another binding than HTTP.
func baseOf(ctx context.Context) string {
	base, _ := ctx.Value(baseKey{}).(string)
	return base
}

// Card returns the card of a tenant's tree, or of the tree itself for "". It needs
// [WithURL].
func (s *Server) Card(tenant string) (*sdk.AgentCard, error) {
	return s.cardAt(tenant, s.publicURL())
}

func (s *Server) cardAt(tenant, base string) (*sdk.AgentCard, error) {
	t := s.trees[tenant]
	if t == nil {
		return nil, fmt.Errorf("a2aserver: there is no tenant %q", tenant)
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
