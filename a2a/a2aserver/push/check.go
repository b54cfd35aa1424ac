package push

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/internal/dialguard"
	"github.com/agentarbor/arbor/internal/httptoken"
	"github.com/agentarbor/arbor/internal/outbound"
)

// The largest lengths of the texts of a config, in bytes.
const (
	maxURL    = 2048
	maxSecret = 8192
	maxID     = 256
)

func invalid(what string) error {
	return sdk.NewError(sdk.ErrInvalidParams, "push notification config: "+what)
}

// check returns an error for the client, without secrets, if a config could never be used. The guard checks the address
// again at each connection, because the name may have another address by then.
func (p *Sender) check(c *sdk.PushConfig) error {
	if len(c.ID) > maxID || strings.ContainsFunc(c.ID, isControl) {
		return invalid(fmt.Sprintf("id must be at most %d bytes, without control characters", maxID))
	}
	if err := p.checkURL(c.URL); err != nil {
		return err
	}
	if len(c.Token) > maxSecret || strings.ContainsFunc(c.Token, isControl) {
		return invalid(fmt.Sprintf("token must be the value of an HTTP header, of at most %d bytes", maxSecret))
	}
	if c.Auth == nil {
		return nil
	}
	if len(c.Auth.Scheme) > maxID || !httptoken.Valid(c.Auth.Scheme) {
		return invalid(`authentication.scheme must be an HTTP authentication scheme, such as "Bearer"`)
	}
	if len(c.Auth.Credentials) > maxSecret || strings.ContainsFunc(c.Auth.Credentials, isControl) {
		return invalid(fmt.Sprintf("authentication.credentials must be the value of an HTTP header, of at most %d bytes", maxSecret))
	}
	return nil
}

func (p *Sender) checkURL(s string) error {
	switch host, err := outbound.Host(s, p.opts.AllowHTTP); {
	case s == "":
		return invalid("url is missing")
	case len(s) > maxURL:
		return invalid(fmt.Sprintf("url is longer than %d bytes", maxURL))
	case err != nil:
		return invalid("url " + err.Error())
	case p.opts.AllowHost != nil && !p.opts.AllowHost(host):
		return invalid("url: notifications are not sent to this host")
	default:
		return p.checkHost(host)
	}
}

// checkHost returns an error if the host is not public as far as is known without a DNS lookup.
func (p *Sender) checkHost(host string) error {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if !p.opts.AllowLoopback && (name == "localhost" || strings.HasSuffix(name, ".localhost")) {
		return invalid("url: notifications are not sent to this machine")
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if refused, ok := errors.AsType[*dialguard.Error](p.guard.Check(addr)); ok {
			return invalid("url: notifications are not sent to " + string(refused.Kind))
		}
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
