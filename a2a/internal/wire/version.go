package wire

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/agentarbor/arbor/internal/visible"
)

// Protocol versions, as major.minor.
const (
	version10 = "1.0"
	version03 = "0.3"
)

// versionOf returns the version, as major.minor, that a request names in the header A2A-Version or in the query
// parameter of that name. It returns "" if the request names none. It drops the patch number, which must not matter
// (A2A 1.0, section 3.6). An invalid version, or two different ones, are a VersionNotSupportedError.
func versionOf(r *http.Request, query url.Values, supported []string) (string, error) {
	asked := ""
	for _, value := range append(r.Header.Values(sdk.SvcParamVersion), parameter(query, sdk.SvcParamVersion)...) {
		value = strings.TrimSpace(value)
		if value == "" {
			continue
		}
		if asked != "" && value != asked {
			return "", errVersion(asked+", "+value, supported, "the request asks for two versions of A2A, %q and %q", asked, value)
		}
		asked = value
	}
	if asked == "" {
		return "", nil
	}
	numbers := strings.Split(asked, ".")
	for _, n := range numbers {
		if _, err := strconv.ParseUint(n, 10, 16); err != nil || len(numbers) < 2 || len(numbers) > 3 {
			return "", errVersion(asked, supported, "%q is not a version of A2A: write it as major.minor, such as 1.0", asked)
		}
	}
	return numbers[0] + "." + numbers[1], nil
}

// parameter returns the values of a service parameter in a query. Its name is case-insensitive (A2A 1.0, section
// 3.2.6).
func parameter(query url.Values, name string) []string {
	var all []string
	for key, values := range query {
		if strings.EqualFold(key, name) {
			all = append(all, values...)
		}
	}
	slices.Sort(all)
	return all
}

// negotiate returns the version in which to answer a request. A request that names none gets version 0.3 if that is
// served, as the specification requires, and otherwise 1.0, because a refusal would help no client.
func negotiate(r *http.Request, query url.Values, legacy bool) (string, error) {
	supported := []string{version10}
	if legacy {
		supported = []string{version03, version10}
	}
	asked, err := versionOf(r, query, supported)
	switch {
	case err != nil:
		return "", err
	case asked == "":
		return supported[0], nil
	case slices.Contains(supported, asked):
		return asked, nil
	default:
		return "", errVersion(asked, supported, "version %s of A2A is not supported at this URL", asked)
	}
}

// errVersion returns an error that lists the supported versions, so that a client can choose one.
func errVersion(asked string, supported []string, format string, a ...any) error {
	asked = visible.Cut(asked, 64)
	list := strings.Join(supported, ", ")
	message := fmt.Sprintf(format, a...)
	if len(message) > 300 {
		message = "the version of A2A that the request asks for is not supported"
	}
	return sdk.NewError(sdk.ErrVersionNotSupported, message+"; supported: "+list).
		WithErrorInfoMeta(map[string]string{"requestedVersion": asked, "supportedVersions": list})
}
