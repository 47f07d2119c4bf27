"""Acceptance test of a machine: do training and measuring on its devices do what they claim?"""
