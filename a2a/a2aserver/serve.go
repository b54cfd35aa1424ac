package a2aserver

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/a2a/internal/cardjson"
	"github.com/agentarbor/arbor/a2a/internal/wire"
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
	f := wire.Front{Handler: s.checked, Card: s.serveCard, Legacy: s.compat, EncodeCard: cardjson.Marshal, Auth: s.auth, Tenants: tenants,
		Hosts: s.web.Hosts, Origins: s.web.Origins, MaxBody: s.web.MaxBody, KeepAlive: s.web.KeepAlive, BodyTimeout: s.web.BodyTimeout,
		WriteTimeout: s.web.WriteTimeout, Logger: s.logger}
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
