// The definitions of OpenShift's kinds that the tests read. No program is built from it.
module weir.dev/tools/openshift

go 1.26.0

require github.com/openshift/api v0.0.0-20250602203052-b29811a290c7
