package a2a

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"golang.org/x/sync/singleflight"
)

// The paths at which agents publish their cards: that of A2A 1.0, and the older
// one.
const (
	wellKnown    = "/.well-known/agent-card.json"
	oldWellKnown = "/.well-known/agent.json"
)

// peer is a fetched card, and the client made of it.
type peer struct {
	client   Client
	card     *sdk.AgentCard // nil if there is none
	endpoint string         // as errors and events may show it
	fetched  time.Time
}

// cards fetches the card once for all who need it at the same time, and keeps it
// for a while. A failure is not kept.
type cards struct {
	url      *url.URL
	shown    string
	client   *http.Client
	ttl      time.Duration
	timeout  time.Duration
	connect  func(context.Context, *sdk.AgentCard) (*peer, error)
	bindings []Binding
	given    *peer // set if there is no card to fetch

	flights singleflight.Group
	mu      sync.Mutex
	kept    *peer
}

// get returns the peer, from the cache if it is fresh.
func (c *cards) get(ctx context.Context) (*peer, error) {
	if c.given != nil {
		return c.given, nil
	}
	for {
		if p := c.fresh(); p != nil {
			return p, nil
		}
		var led atomic.Bool
		flight := c.flights.DoChan("card", func() (any, error) {
			led.Store(true)
			if p := c.fresh(); p != nil { // of a flight that ended just now
				return p, nil
			}
			return c.fetch(ctx)
		})
		var res singleflight.Result
		select {
		case res = <-flight:
		case <-ctx.Done():
			if led.Load() {
				<-flight // it ends with ctx, and nothing shall outlive the turn
			}
			return nil, context.Cause(ctx)
		}
		if res.Err == nil {
			return res.Val.(*peer), nil
		}
		// Whoever led the flight may have been canceled, which is no answer for
		// the others.
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if led.Load() || !errors.Is(res.Err, errLeaderGone) {
			return nil, res.Err
		}
	}
}

var errLeaderGone = errors.New("the fetch was canceled")

func (c *cards) fresh() *peer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept != nil && time.Since(c.kept.fetched) < c.ttl {
		return c.kept
	}
	return nil
}

// drop forgets a peer after a call to it failed.
func (c *cards) drop(p *peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == p {
		c.kept = nil
	}
}

func (c *cards) fetch(caller context.Context) (*peer, error) {
	ctx, cancel := context.WithTimeout(caller, c.timeout)
	defer cancel()
	urls := []*url.URL{c.url}
	if c.url.Path == "" || c.url.Path == "/" {
		first, second := *c.url, *c.url
		first.Path, second.Path = wellKnown, oldWellKnown
		urls = []*url.URL{&first, &second}
	}
	var body []byte
	var err error
	for _, u := range urls {
		body, err = c.read(ctx, u)
		var status *statusError
		if !errors.As(err, &status) || status.status != http.StatusNotFound {
			break
		}
	}
	switch {
	case err != nil && caller.Err() != nil:
		return nil, fmt.Errorf("%w: %w", errLeaderGone, caller.Err())
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("the card was not there within %s: %w", c.timeout, ctx.Err())
	case err != nil:
		return nil, err
	}
	card, err := c.parse(body)
	if err != nil {
		return nil, err
	}
	p, err := c.connect(ctx, card)
	if err != nil {
		return nil, err
	}
	p.fetched = time.Now()
	c.mu.Lock()
	c.kept = p
	c.mu.Unlock()
	return p, nil
}

func (c *cards) read(ctx context.Context, u *url.URL) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, &statusError{resp.StatusCode}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxCard+1))
	if err == nil && len(body) > maxCard {
		err = errTooLarge
	}
	return body, err
}

// parse reads a card: one of A2A 1.0, or one that a binding of another version can
// read, since to a reader of 1.0 it has no interfaces.
func (c *cards) parse(body []byte) (*sdk.AgentCard, error) {
	// Only what we use is read, so that nothing else in a card can be in the way.
	var card struct {
		Name                string                `json:"name"`
		Description         string                `json:"description"`
		SupportedInterfaces []*sdk.AgentInterface `json:"supportedInterfaces"`
		Capabilities        sdk.AgentCapabilities `json:"capabilities"`
		Old                 string                `json:"protocolVersion"`
	}
	err := json.Unmarshal(body, &card)
	if err == nil && len(card.SupportedInterfaces) > 0 {
		return &sdk.AgentCard{Name: card.Name, Description: card.Description, SupportedInterfaces: card.SupportedInterfaces, Capabilities: card.Capabilities}, nil
	}
	for _, b := range c.bindings {
		if b.ParseCard == nil {
			continue
		}
		if card, err := b.ParseCard(body); err == nil && card != nil && len(card.SupportedInterfaces) > 0 {
			return card, nil
		}
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("the card is not what the protocol promises: %w", err)
	case strings.HasPrefix(card.Old, "0."):
		return nil, fmt.Errorf("the peer speaks A2A %s: package a2a/a2av0 has bindings for A2A 0.3, which WithBinding adds", clip(card.Old, 20))
	}
	return nil, errors.New("the card names no interface")
}
