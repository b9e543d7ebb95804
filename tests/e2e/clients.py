"""The official Python client, pointed at a musterd."""

import grpc
from google.auth.credentials import AnonymousCredentials
from google.cloud.aiplatform_v1 import JobServiceClient
from google.cloud.aiplatform_v1.services.job_service.transports import (
    JobServiceGrpcTransport,
    JobServiceRestTransport,
)
from google.cloud.aiplatform_v1.types import CustomJobSpec
from google.protobuf import json_format


def grpc_job_client(address):
    channel = grpc.insecure_channel(address)
    return JobServiceClient(transport=JobServiceGrpcTransport(channel=channel))


def rest_job_client(address):
    return JobServiceClient(transport=JobServiceRestTransport(
        host=f"http://{address}", credentials=AnonymousCredentials(), url_scheme="http"))


def to_proto_dict(spec):
    """A camelCase CustomJobSpec as the client's message."""
    message = CustomJobSpec.pb(CustomJobSpec())
    json_format.ParseDict(spec, message)
    return CustomJobSpec.wrap(message)
