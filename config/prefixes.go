package config

import (
	"errors"
	"net/netip"
	"strings"
)

// Hosts are names of servers separated by commas: "board.example.com, batch.example.com".
type Hosts string

// Prefixes are ranges of addresses, written as addresses and CIDR prefixes separated by commas: "10.0.0.0/8, ::1".
type Prefixes []netip.Prefix

// String writes the ranges as prefixes: "10.0.0.0/8, ::1/128".
func (p Prefixes) String() string {
	texts := make([]string, len(p))
	for i, prefix := range p {
		texts[i] = prefix.String()
	}
	return strings.Join(texts, ", ")
}

func parsePrefixes(text string) (list Prefixes, err error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		prefix, err := parsePrefix(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		list = append(list, prefix)
	}
	return list, nil
}

func parsePrefix(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	address := prefix.Addr()
	if err != nil {
		address, err = netip.ParseAddr(text)
		prefix = netip.PrefixFrom(address, address.BitLen())
	}
	if err == nil && (address.Zone() != "" || address.Is4In6()) {
		err = errors.New("a zone, or IPv4 written as IPv6, would never match")
	}
	return prefix, err
}
