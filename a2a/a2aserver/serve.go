package a2aserver

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/a2a/internal/wire"
	"github.com/agentarbor/arbor/server/access"
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
	web := access.Options{Hosts: s.web.Hosts, Origins: s.web.Origins, MaxBody: s.web.MaxBody, BodyTimeout: s.web.BodyTimeout, WriteTimeout: s.web.WriteTimeout}
	if s.base != nil {
		web.Hosts = append(slices.Clone(web.Hosts), s.base.Host)
	}
	var err error
	s.front, err = wire.New(wire.Front{Handler: s.checked, Card: s.serveCard, Legacy: s.compat, Auth: s.auth, Tenants: tenants,
		Access: web, KeepAlive: s.web.KeepAlive, Logger: s.logger})
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
