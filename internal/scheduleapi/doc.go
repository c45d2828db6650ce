// Package scheduleapi has the routes, types and descriptions of schedules over HTTP. Package
// jobs/schedule/httpapi serves them for an application, and prescient serve and the daemon serve them as a
// part of their API.
package scheduleapi
