package a2aserver_test

import (
	"context"
	"errors"
	"fmt"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/a2a/a2aserver"
	"github.com/agentarbor/arbor/server/access"
)

// parseJWT stands for the library that a program uses for JSON Web Tokens.
func parseJWT(token string) (subject string, err error) {
	if token != "eyJhbGciOi..." {
		return "", errors.New("the signature does not match")
	}
	return "ann@example.com", nil
}

// Callers come with tokens of an OAuth 2.0 server, or with an API key.
func ExampleOAuth2() {
	tokens, err := a2aserver.OAuth2(sdk.OAuth2SecurityScheme{
		Flows: sdk.ClientCredentialsOAuthFlow{TokenURL: "https://id.example.com/token", Scopes: map[string]string{"tasks": "send messages"}},
	}, func(_ context.Context, token string) (string, error) {
		subject, err := parseJWT(token)
		if err != nil {
			return "", fmt.Errorf("%w: %w", access.ErrUnauthenticated, err)
		}
		return subject, nil
	})
	if err != nil {
		panic(err)
	}
	keys, err := a2aserver.APIKeys(sdk.APIKeySecuritySchemeLocationHeader, "X-API-Key", map[string]string{"s3cr3t": "nightly-job"})
	if err != nil {
		panic(err)
	}
	either, err := a2aserver.AnyOf(tokens, keys)
	if err != nil {
		panic(err)
	}

	caller, err := either.Authenticate(context.Background(), access.Credentials{
		Header: func(name string) []string {
			if name == "Authorization" {
				return []string{"Bearer eyJhbGciOi..."}
			}
			return nil
		},
	})
	fmt.Println(caller.Name, err)
	// Output: ann@example.com <nil>
}
