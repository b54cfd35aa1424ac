package a2aserver

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/internal/dialguard"
	"github.com/agentarbor/arbor/internal/httptoken"
)

// The longest that the texts of a config may be.
const (
	maxPushURL    = 2048
	maxPushSecret = 8192
	maxPushID     = 256
)

func invalidPush(what string) error {
	return sdk.NewError(sdk.ErrInvalidParams, "push notification config: "+what)
}

// check refuses a config that could never be used, and says why in words for the
// client, without its secrets. An address that is refused here is refused again
// when a connection is made, because a name may lead elsewhere by then.
func (p *pushes) check(c *sdk.PushConfig) error {
	if len(c.ID) > maxPushID || strings.ContainsFunc(c.ID, isControl) {
		return invalidPush(fmt.Sprintf("id must be at most %d bytes, without control characters", maxPushID))
	}
	if err := p.checkPushURL(c.URL); err != nil {
		return err
	}
	if len(c.Token) > maxPushSecret || strings.ContainsFunc(c.Token, isControl) {
		return invalidPush(fmt.Sprintf("token must be the value of an HTTP header, of at most %d bytes", maxPushSecret))
	}
	if c.Auth == nil {
		return nil
	}
	if len(c.Auth.Scheme) > maxPushID || !httptoken.Valid(c.Auth.Scheme) {
		return invalidPush(`authentication.scheme must be an HTTP authentication scheme, such as "Bearer"`)
	}
	if len(c.Auth.Credentials) > maxPushSecret || strings.ContainsFunc(c.Auth.Credentials, isControl) {
		return invalidPush(fmt.Sprintf("authentication.credentials must be the value of an HTTP header, of at most %d bytes", maxPushSecret))
	}
	return nil
}

func (p *pushes) checkPushURL(s string) error {
	switch u, err := url.Parse(s); {
	case s == "":
		return invalidPush("url is missing")
	case len(s) > maxPushURL:
		return invalidPush(fmt.Sprintf("url is longer than %d bytes", maxPushURL))
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "":
		return invalidPush("url is no absolute URL with a host")
	case u.Scheme != "https" && (u.Scheme != "http" || !p.opts.AllowHTTP):
		return invalidPush("url must be https")
	case u.User != nil:
		return invalidPush("url must not hold credentials: use authentication")
	case p.opts.AllowHost != nil && !p.opts.AllowHost(u.Hostname()):
		return invalidPush("url: notifications are not sent to this host")
	default:
		return p.checkPushHost(u.Hostname())
	}
}

// checkPushHost refuses what is known without a look-up to be no public address.
func (p *pushes) checkPushHost(host string) error {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if !p.opts.AllowLoopback && (name == "localhost" || strings.HasSuffix(name, ".localhost")) {
		return invalidPush("url: notifications are not sent to this machine")
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		if refused, ok := errors.AsType[*dialguard.Error](p.guard.Check(addr)); ok {
			return invalidPush("url: notifications are not sent to " + string(refused.Kind))
		}
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
