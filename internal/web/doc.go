// Package web has the common parts of prescient's HTTP APIs: tokens, problems of RFC 9457, strict
// bodies and parameters, OpenAPI documents, and a server that limits slow clients.
//
// It makes the OpenAPI documents itself. A trial with github.com/swaggest/openapi-go made the same
// documents, except for the description of a field that hides an embedded one. It needed 464 lines here
// instead of 411, because hooks had to add each comment, enumeration, null and required field. It added
// four modules, and 0.85 MB (2.4 %) to the binary. With github.com/danielgtaylor/huma, descriptions are
// struct tags instead of comments, no struct may be null, and each handler has another form.
package web
