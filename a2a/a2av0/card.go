package a2av0

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	compat "github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"

	"github.com/agentarbor/arbor/a2a/internal/cardjson"
	"github.com/agentarbor/arbor/internal/plainjson"
)

// parseCard parses a card of A2A 0.3 (section 5.5 of its specification). If its security schemes cannot be parsed, they
// are omitted, because the remote agent does not use them. It returns an error if the document is not a card of 0.3.
func parseCard(doc []byte) (*sdk.AgentCard, error) {
	var old struct {
		ProtocolVersion      string `json:"protocolVersion"`
		URL                  string `json:"url"`
		PreferredTransport   string `json:"preferredTransport"`
		AdditionalInterfaces []struct {
			URL       string `json:"url"`
			Transport string `json:"transport"`
		} `json:"additionalInterfaces"`
		SupportedInterfaces any `json:"supportedInterfaces"` // in cards of 1.0
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
	card, err := compat.NewAgentCardParser()(doc)
	if err != nil {
		if card, err = parseWithoutSecurity(doc); err != nil {
			return nil, fmt.Errorf("cannot parse the A2A 0.3 card: %w", err)
		}
	}
	if list, _ := old.SupportedInterfaces.([]any); len(card.SupportedInterfaces) > 0 && len(list) > 0 {
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

func parseWithoutSecurity(doc []byte) (*sdk.AgentCard, error) {
	var card map[string]any
	if err := json.Unmarshal(doc, &card); err != nil {
		return nil, err
	}
	without := func(m map[string]any) {
		for _, name := range []string{"securitySchemes", "security", "securityRequirements"} {
			delete(m, name)
		}
	}
	without(card)
	skills, _ := card["skills"].([]any)
	for _, s := range skills {
		if skill, ok := s.(map[string]any); ok {
			without(skill)
		}
	}
	doc, err := json.Marshal(card)
	if err != nil {
		return nil, err
	}
	return compat.NewAgentCardParser()(doc)
}

// encodeCard encodes a card for clients of both A2A 1.0 and 0.3: the card of 1.0 with additional fields for 0.3. The
// first interface of version 0.3 is the preferred one for its clients; a card without one is an error.
func encodeCard(card *sdk.AgentCard) ([]byte, error) {
	tree, err := cardjson.Tree(card)
	if err != nil {
		return nil, err
	}
	var additional []any
	for _, i := range card.SupportedInterfaces {
		if i.ProtocolVersion != compat.Version {
			continue
		}
		if tree["url"] == nil {
			tree["url"], tree["preferredTransport"] = i.URL, string(i.ProtocolBinding)
		}
		additional = append(additional, map[string]any{"url": i.URL, "transport": string(i.ProtocolBinding)})
	}
	if tree["url"] == nil {
		return nil, errors.New("the card contains no interface of A2A 0.3")
	}
	tree["protocolVersion"] = "0.3.0"
	tree["additionalInterfaces"] = additional
	tree["supportsAuthenticatedExtendedCard"] = card.Capabilities.ExtendedAgentCard
	if len(card.SecurityRequirements) > 0 {
		tree["security"] = requirements(card.SecurityRequirements)
	}
	if skills, ok := tree["skills"].([]any); ok && len(skills) == len(card.Skills) {
		for i, s := range card.Skills {
			if skill, ok := skills[i].(map[string]any); ok && len(s.SecurityRequirements) > 0 {
				skill["security"] = requirements(s.SecurityRequirements)
			}
		}
	}
	if schemes, ok := tree["securitySchemes"].(map[string]any); ok {
		for _, s := range schemes {
			if scheme, ok := s.(map[string]any); ok {
				addLegacyFields(scheme)
			}
		}
	}
	return plainjson.Marshal(tree)
}

// addLegacyFields copies the fields of a security scheme to where 0.3 expects them. In 1.0 they are nested under the
// name of the scheme's kind.
func addLegacyFields(scheme map[string]any) {
	for kind, old := range map[string]string{"apiKeySecurityScheme": "apiKey", "httpAuthSecurityScheme": "http", "oauth2SecurityScheme": "oauth2",
		"openIdConnectSecurityScheme": "openIdConnect", "mtlsSecurityScheme": "mutualTLS"} {
		inner, ok := scheme[kind].(map[string]any)
		if !ok {
			continue
		}
		fields := maps.Clone(inner)
		if in, ok := fields["location"]; ok {
			delete(fields, "location")
			fields["in"] = in
		}
		maps.Copy(scheme, fields)
		scheme["type"] = old
		return
	}
}

func requirements(all sdk.SecurityRequirementsOptions) []any {
	var list []any
	for _, r := range all {
		one := make(map[string]any)
		for name, scopes := range r {
			one[string(name)] = append([]string{}, scopes...)
		}
		list = append(list, one)
	}
	return list
}
