package a2av0

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	compat "github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/agentarbor/arbor/a2a/internal/cardjson"
	"github.com/agentarbor/arbor/internal/plainjson"
)

// parseCard parses the fields that the remote agent uses of a card of A2A 0.3 (section 5.5 of its specification), so that
// the others need not be valid. It returns an error if the document is not a card of 0.3.
func parseCard(doc []byte) (*sdk.AgentCard, error) {
	var old struct {
		Name                 string                `json:"name"`
		Description          string                `json:"description"`
		Capabilities         sdk.AgentCapabilities `json:"capabilities"`
		Extended             bool                  `json:"supportsAuthenticatedExtendedCard"`
		ProtocolVersion      string                `json:"protocolVersion"`
		URL                  string                `json:"url"`
		PreferredTransport   string                `json:"preferredTransport"`
		AdditionalInterfaces []struct {
			URL       string `json:"url"`
			Transport string `json:"transport"`
		} `json:"additionalInterfaces"`
		SupportedInterfaces json.RawMessage `json:"supportedInterfaces"` // in cards of 1.0
	}
	if err := json.Unmarshal(doc, &old); err != nil {
		return nil, fmt.Errorf("cannot parse the A2A 0.3 card: %w", err)
	}
	if old.ProtocolVersion == "" {
		old.ProtocolVersion = version // the schema's default
	}
	// Versions 0.2.5 and 0.2.6 define messages and tasks in the same way.
	if old.URL == "" || !strings.HasPrefix(old.ProtocolVersion, "0.3") && !strings.HasPrefix(old.ProtocolVersion, "0.2") {
		return nil, errors.New("the document is not an A2A 0.3 card: url is missing, or protocolVersion is not 0.2 or 0.3")
	}
	old.Capabilities.ExtendedAgentCard = old.Capabilities.ExtendedAgentCard || old.Extended
	card := &sdk.AgentCard{Name: old.Name, Description: old.Description, Capabilities: old.Capabilities}
	if json.Unmarshal(old.SupportedInterfaces, &card.SupportedInterfaces) == nil && len(card.SupportedInterfaces) > 0 {
		return card, nil
	}
	card.SupportedInterfaces = nil
	add := func(url, transport string) {
		if transport == "" {
			transport = string(sdk.TransportProtocolJSONRPC)
		}
		i := &sdk.AgentInterface{URL: url, ProtocolBinding: sdk.TransportProtocol(transport), ProtocolVersion: compat.Version}
		if url != "" && !slices.ContainsFunc(card.SupportedInterfaces, func(o *sdk.AgentInterface) bool { return *o == *i }) {
			card.SupportedInterfaces = append(card.SupportedInterfaces, i)
		}
	}
	add(old.URL, old.PreferredTransport)
	for _, i := range old.AdditionalInterfaces {
		add(i.URL, i.Transport)
	}
	return card, nil
}

// encodeCard encodes a card for clients of both A2A 1.0 and 0.3: the card of 1.0, and what the SDK's card for both has in
// addition. The first interface of version 0.3 is the preferred one for its clients; a card without one is an error.
func encodeCard(card *sdk.AgentCard) ([]byte, error) {
	tree, err := cardjson.Tree(card)
	if err != nil {
		return nil, err
	}
	doc, err := compat.NewStaticAgentCardProducer(card).(a2asrv.AgentCardJSONProducer).CardJSON(context.Background())
	if err != nil {
		return nil, err
	}
	both, err := cardjson.Parse(doc)
	if err != nil {
		return nil, err
	}
	addMissing(tree, both)
	schemes, _ := tree["securitySchemes"].(map[string]any)
	for _, s := range schemes {
		scheme, _ := s.(map[string]any)
		kind, _ := scheme["type"].(string)
		delete(scheme, kind) // the SDK's second name of what 1.0 has under another
	}
	// The specification wants the preferred interface among the others, and a version of three numbers.
	others, _ := tree["additionalInterfaces"].([]any)
	tree["additionalInterfaces"] = append([]any{map[string]any{"url": tree["url"], "transport": tree["preferredTransport"]}}, others...)
	tree["protocolVersion"] = "0.3.0"
	return plainjson.Marshal(tree)
}

// addMissing adds the fields of a value that another one lacks, at any depth.
func addMissing(to, from any) {
	switch to := to.(type) {
	case map[string]any:
		more, _ := from.(map[string]any)
		for name, v := range more {
			if own, there := to[name]; there {
				addMissing(own, v)
			} else {
				to[name] = v
			}
		}
	case []any:
		more, _ := from.([]any)
		for i := range min(len(to), len(more)) {
			addMissing(to[i], more[i])
		}
	}
}
