package wire

import (
	"fmt"
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

// versions returns the versions that a request names in the header A2A-Version and in the query parameter of that name.
func (x *exchange) versions() []string {
	return append(x.r.Header.Values(sdk.SvcParamVersion), parameter(x.query, sdk.SvcParamVersion)...)
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

// Negotiate returns the version, as major.minor, in which to answer a request that names these versions. The patch
// number does not matter (A2A 1.0, section 3.6). A request that names none gets the first supported version, because a
// refusal would help no client. An invalid version, two different ones and one that is not supported are a
// VersionNotSupportedError.
func Negotiate(named []string, supported ...string) (string, error) {
	asked := ""
	for _, value := range named {
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
		return supported[0], nil
	}
	numbers := strings.Split(asked, ".")
	for _, n := range numbers {
		if _, err := strconv.ParseUint(n, 10, 16); err != nil || len(numbers) < 2 || len(numbers) > 3 {
			return "", errVersion(asked, supported, "%q is not a version of A2A: write it as major.minor, such as 1.0", asked)
		}
	}
	version := numbers[0] + "." + numbers[1]
	if !slices.Contains(supported, version) {
		return "", errVersion(version, supported, "version %s of A2A is not supported at this address", version)
	}
	return version, nil
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
